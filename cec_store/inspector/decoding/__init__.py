"""Records and their keys as plain values, with the columns that Spark gave them where known."""
