"""Verbs about fleets: Spark queries joined by queues, run as one."""
