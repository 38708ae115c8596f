"""Queues of many partitions, version 2: commits that name segments. docs/format.md §11."""
