"""The benchmark behind `make bench`, and the proof that its load generator is not the limit."""
