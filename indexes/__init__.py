"""Indexes derived from a log, which can be deleted. They read the log, which never calls them."""
