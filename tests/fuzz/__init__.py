"""Fuzzers: nonsense for everything that reads what others wrote. README.md says how to run them."""
