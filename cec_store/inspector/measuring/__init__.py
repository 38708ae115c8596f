"""Costs of a restart and their reasons: extents, their history, and the effect of other targets."""
