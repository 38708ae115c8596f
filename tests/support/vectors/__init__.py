"""How the bytes below tests/data were made."""
