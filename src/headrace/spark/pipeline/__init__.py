"""Pipelines: streams through SQL and Python into tables and streams, described in a YAML file.

Read `specification` (what a pipeline is), `document` (YAML with line numbers), `reading` (from YAML to a
specification), `plan` (to DataFrames), `run` (to queries).
"""
