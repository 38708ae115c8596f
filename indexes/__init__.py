"""What is derived from a log and can be thrown away: followers of the queue, never called by it."""
