"""Pipelines: streams through SQL and Python into tables and streams, described in a YAML file.

Read `specification` (what a pipeline is), `document` (YAML with lines), `reading` (from this to that),
`plan` (DataFrames of it), `run` (queries of them).
"""
