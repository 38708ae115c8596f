"""What tests share: a folder for each kind of helper. Nothing else below tests/ is imported."""
