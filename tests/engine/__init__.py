"""The engine alone, on socket pairs: no event loop, no broker."""
