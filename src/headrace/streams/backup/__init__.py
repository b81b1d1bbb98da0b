"""Backup and restore of streams, in the protocol and the archive format of nats-server."""
