"""A fuzzer, and everything that reads foreign bytes as its targets."""
