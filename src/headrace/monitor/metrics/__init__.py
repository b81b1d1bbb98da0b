"""/metrics: figures for Prometheus, read from the server's own counters when somebody asks."""
