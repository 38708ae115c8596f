"""What a query will need, before there is one."""
