"""A query's checkpoint in another provider's hands, or in other partitions: it goes on there."""
