"""Verbs for operators whose node has failed: schemes, and a standby that takes over."""
