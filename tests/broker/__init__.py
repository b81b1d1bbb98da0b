"""The broker in the event loop of the test, on real sockets."""
