"""What a consumer has on disk: its directory, its state, and how it comes back after a restart."""
