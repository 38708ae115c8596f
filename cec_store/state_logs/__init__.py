"""The logs of Spark's state stores, read without Spark."""
