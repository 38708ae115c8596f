"""Users of the log in other engines: Spark is going to live here."""
