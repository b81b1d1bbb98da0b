"""Examples; a package so that `python -m examples.demo` finds its parts."""
