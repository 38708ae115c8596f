"""The windowed aggregate."""
