"""Spark with our state store, source and sink, against what Spark has itself."""
