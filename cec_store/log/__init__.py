"""One log: its segments read and appended to, opened after a crash, and replayed."""
