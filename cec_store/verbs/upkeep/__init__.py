"""Changes of queues by verbs: planned first, without a change, and then carried out."""
