"""Connectors: the log in other engines. `spark` holds the state store, source, sink and fleets."""
