"""Queues as datasets that DuckDB, polars and pandas scan by themselves."""
