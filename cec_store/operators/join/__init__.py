"""The windowed join of two streams."""
