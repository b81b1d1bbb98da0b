"""The `tls` blocks: what they say, and the ssl contexts that follow from it."""
