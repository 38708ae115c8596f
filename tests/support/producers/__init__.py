"""Tables as other libraries hand them out."""
