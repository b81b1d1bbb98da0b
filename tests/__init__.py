"""The test suite; it mirrors the rooms of the package."""
