"""One file per fuzzer. Each has `check(data)`, which raises if the code did something wrong with the data."""
