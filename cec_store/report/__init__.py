"""One self-contained page about a queue, a state store or a Spark checkpoint."""
