"""The output queue of one operator: writing, reading, its consumers, and trimming."""
