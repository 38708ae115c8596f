"""Spark's own suites for `transformWithState`, on our store and on RocksDB."""
