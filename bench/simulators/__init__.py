"""Simulated systems and drawn inputs, which benchmarks and tests hold the product against."""
