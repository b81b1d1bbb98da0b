"""Connections, interest, limits, keepalive and drain: what is decided between socket and engine."""
