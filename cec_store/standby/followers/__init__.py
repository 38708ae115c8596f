"""Kept close to a log that another process writes: an operator's state, or its output."""
