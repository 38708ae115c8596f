"""State on Spark's executors: which of them owns a partition, who has a replica, and moves."""
