"""What a publish into a stream may need: checks, ids, batches, counters, rollups, TTLs, schedules."""
