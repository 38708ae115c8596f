"""Mangling of whole directories by hands that know nothing of the format, and what must hold."""
