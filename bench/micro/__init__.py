"""Parts of cec-store by themselves, without Spark: appends, seeks, openings, rebuilds, standbys."""
