"""Bytes to values and back, as docs/format.md has them. No I/O."""
