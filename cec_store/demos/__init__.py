"""Jobs over real flights that are killed, resumed and compared."""
