"""Fleets of Spark queries: how long each stands still after a failure of many at once."""
