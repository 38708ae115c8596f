"""Sorting a stream that is almost in order."""
