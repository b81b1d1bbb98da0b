"""Streams that copy other streams: mirrors and sources."""
