"""Tables in the format Delta, whose log the library `deltalake` writes. Start with `table`."""
