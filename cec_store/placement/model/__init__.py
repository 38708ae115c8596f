"""The simulator of the paper's section 7: recorded loads, an allocation, and what the adaptation does."""
