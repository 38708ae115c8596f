"""Evaluations of the four papers, done again; docs/evaluation.md has what comes of them."""
