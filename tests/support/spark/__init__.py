"""Sessions, JVMs and queries of a real Spark."""
