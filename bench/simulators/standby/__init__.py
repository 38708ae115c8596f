"""Simulator of the availability paper's system: nodes, links and messages in simulated time."""
