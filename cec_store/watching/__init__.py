"""A place while it changes: one look after the other, and the rates between them."""
