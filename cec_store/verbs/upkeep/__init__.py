"""What a verb changes of a queue: planned first, without a change, and then carried out."""
