"""Spark drivers that run, and are killed, in processes of their own."""
