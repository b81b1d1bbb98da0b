"""Pipelines: streams through SQL and Python into tables and streams, described in a YAML file.

Read `document` (YAML with lines), `specification` (what may stand in the file), `plan` (DataFrames of it),
`run` (queries of them).
"""
