"""Sockets to sockets: reading, parsing, matching, delivering, writing, for all connections of a server."""
