"""Requests in, responses out: every subject under $JS.API and $JS.EVENT, and the JSON behind it."""
