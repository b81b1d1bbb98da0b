"""The `headrace` command, run as users run it: as a process, against real servers."""
