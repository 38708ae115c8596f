"""Rounds, facts of the machine, processes and inputs that scripts share; the run of them all."""
