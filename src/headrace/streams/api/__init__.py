"""Requests in, answers out: every subject under $JS.API and $JS.EVENT, and the JSON behind it."""
