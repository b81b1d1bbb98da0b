"""A NATS server that you pip install, whose streams are Spark tables."""

__version__ = "0.1.0"
