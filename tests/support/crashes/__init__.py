"""Workloads that crash, and what must hold afterwards."""
