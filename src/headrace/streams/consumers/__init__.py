"""Consumers: their rules, pull and push delivery, acknowledgements, redelivery, and their state on disk."""
