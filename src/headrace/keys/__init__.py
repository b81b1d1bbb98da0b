"""NATS keys, tokens and credentials: what the server, the client and the commands know of them. A leaf."""
