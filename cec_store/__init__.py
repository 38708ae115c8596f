"""cec-store: a persistent output-queue log with eventual checkpoints for stream processing."""
