"""Tables of files that a query adds to, batch by batch, exactly once. See `layout` first."""
