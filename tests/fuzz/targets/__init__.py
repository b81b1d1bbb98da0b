"""One file per fuzzer. Each has `check(data)`, which raises if what the code did with these bytes is wrong."""
