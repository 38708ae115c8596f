"""Looks at queues, damaged ones too, and changes nothing, not even a lock or an index."""
