"""What a log holds, decoded: records, states, changes and differences."""
