"""Places to inspect at a path, and a version, moment or offset in them."""
