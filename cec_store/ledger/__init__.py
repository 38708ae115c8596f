"""The ledger of a queue: numbered commits, and what they say. docs/format.md §11."""
