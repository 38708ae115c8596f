"""Bodies whose columns are compressed apart: codec 3 of docs/format.md §6."""
