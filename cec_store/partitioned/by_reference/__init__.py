"""Queues of many partitions: commits that name segments. docs/format.md §11."""
