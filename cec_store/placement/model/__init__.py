"""The simulator of the paper's section 7: recorded loads, allocations, and the adaptation."""
