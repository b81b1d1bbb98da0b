"""Between the two: from a publish into a log to its acknowledgement, and from a log to its consumers."""
