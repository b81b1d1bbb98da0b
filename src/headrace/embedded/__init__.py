"""A server inside another program: `from headrace import Server`."""
