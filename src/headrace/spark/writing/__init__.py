"""Rows as messages: `sink` first, then the columns and ids that it makes messages from."""
