"""Queues in stores that cannot append: each group commit is an object. docs/format.md §13."""
