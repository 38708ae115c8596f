"""Folders that forget, fail or lie, in memory, on a loop device and below the C library."""
