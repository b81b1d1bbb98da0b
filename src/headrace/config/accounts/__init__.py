"""The `accounts` block: limits, exports, imports, mappings, and whether they fit together."""
