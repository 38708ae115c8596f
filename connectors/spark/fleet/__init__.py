"""Fleets: queries joined by queues, run, watched and brought back as one; docs/fleets.md."""
