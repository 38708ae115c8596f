"""Stream operators: windowed aggregate and join, filter, map and union, and what drives them."""
