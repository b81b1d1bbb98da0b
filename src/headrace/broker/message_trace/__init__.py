"""Traces of messages: what becomes of one, for those whose headers ask for it."""
