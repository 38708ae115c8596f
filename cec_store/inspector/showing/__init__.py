"""Contents of a log, decoded: records, states, changes and differences."""
