"""Reading what may be damaged: which files there are, and what of each is sound."""
