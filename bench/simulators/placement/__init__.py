"""Simulator of the migration paper (7): recorded loads, allocations, and the adaptation."""
