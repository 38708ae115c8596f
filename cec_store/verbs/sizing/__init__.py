"""Estimates of the needs of a query, before there is one."""
