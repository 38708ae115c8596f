"""Queues, state logs and checkpoints, made for a test, some of them damaged."""
