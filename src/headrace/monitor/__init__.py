"""The HTTP monitoring port: what nats-server tells about itself, in its words."""
