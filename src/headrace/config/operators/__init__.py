"""Operator mode and callouts, as the configuration says it."""
