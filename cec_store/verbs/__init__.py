"""The verbs of the command line: each reads its options, asks the rooms above, and shows."""
