"""Progress of Spark queries: gauges for Prometheus, and a bounded history beside the checkpoint."""
