"""Measure any NATS server: workloads, the load generator around the compiled loop, alternating rounds,
tables.

Read in this order: `wire` (frames and connections), `workloads` (what is measured), `generator` (one run of
the compiled loop), `servers` (a server process and what it costs), `compare` (rounds), `tables` (what is
shown).
"""
