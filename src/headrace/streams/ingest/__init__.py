"""Publishes into a stream that need a decision: checks, ids, batches, counters, rollups, TTLs, schedules."""
