"""What is inside the messages: schemas, decoders, columns from subjects, rows that do not fit, evolution.

These are functions of schemas and DataFrames; they know no server and no table.
"""
