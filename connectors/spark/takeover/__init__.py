"""Spark applications that take a query over: the lease of a driver, and who waits for it."""
