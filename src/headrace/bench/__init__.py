"""Measure any NATS server: workloads, the load generator around the compiled loop, alternating rounds,
reports.

Read in this order: `wire` (frames and connections), `jetstream` (its API), `generator` and
`processes` (one run of the compiled loop), `servers` (a server process and what it costs), `workloads` (what
is measured).

Then one run: `jobs` (flags), `runs`, `rates` and `distribution` (its figures), `classic`, `export` and `save`
(where they go), `seeds` (figures that others published). Or several servers: `suites` (rows), `compare`
(rounds), `tables`, `comparison`.
"""
