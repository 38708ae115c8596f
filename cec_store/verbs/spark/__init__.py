"""Spark's settings and jar, and sessions of the verbs' own."""
