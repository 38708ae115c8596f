"""Queues of many partitions: what tasks stage, what a commit takes in, and how they are read."""
