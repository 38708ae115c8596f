"""Spark's checkpoint directory, read and forked without Spark."""
