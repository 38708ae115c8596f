"""Verbs about who goes on when an operator's node has failed."""
