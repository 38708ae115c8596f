"""The output queue of one operator: its writer, its consumers, and what it may forget."""
