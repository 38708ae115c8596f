"""A place against docs/format.md: every fault, with its effect and what to do about it."""
