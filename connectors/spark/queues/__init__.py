"""`format("cec")`: queues as a source and a sink."""
