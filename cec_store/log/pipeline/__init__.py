"""Appends in the background: callers stand in line, and one thread writes."""
