"""Random streams with watermarks, and the stateful operators that evict by them."""
