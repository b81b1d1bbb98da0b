"""The WebSocket port: from a request over HTTP to a connection like others."""
