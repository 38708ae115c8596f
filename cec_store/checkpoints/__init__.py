"""Eventual checkpoints: when a window leaves a footprint, and how state is rebuilt from them."""
