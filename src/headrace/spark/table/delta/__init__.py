"""Tables in the format Delta, whose log the library `deltalake` writes. `table` is where to begin."""
