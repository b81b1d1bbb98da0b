"""What the rest of the engine is built on: system calls, numbers, hashes, maps, patterns."""
