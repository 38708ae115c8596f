"""Programs that tests start beside themselves, and how they start them."""
