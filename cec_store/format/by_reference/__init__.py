"""Objects that are made once and whole: segments, and the commits that name them."""
