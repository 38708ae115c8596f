"""The command line run in this process, and its documents checked."""
