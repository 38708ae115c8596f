"""Fleets that tests run: what they compute, what they read, and what they have to write."""
