"""What is derived from a log and can be thrown away. It reads the log, which never calls it."""
