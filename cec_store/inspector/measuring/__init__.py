"""What a restart costs and why: extents, their history, and what another target would give."""
