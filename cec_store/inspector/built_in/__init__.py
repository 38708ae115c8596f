"""What can be said without Spark of state that Spark's own providers keep. Reads only."""
