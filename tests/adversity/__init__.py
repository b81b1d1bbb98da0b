"""Faults that the server must survive: killed processes, torn files, failing disks."""
