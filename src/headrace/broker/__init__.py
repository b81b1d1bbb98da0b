"""Connections, interest, limits, keepalive and drain: everything between the socket and the engine that decides."""
