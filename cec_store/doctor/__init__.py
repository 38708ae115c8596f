"""Checks of a machine and of a place for what is set up wrong, each with what to do. Reads only."""
