"""The HTTP monitoring port, with the documents and field names of nats-server."""
