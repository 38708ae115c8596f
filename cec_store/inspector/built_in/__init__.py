"""Inspection, without Spark, of state that Spark's own providers keep. Reads only."""
