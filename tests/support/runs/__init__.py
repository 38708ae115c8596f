"""How tests are run: the fault suites, their counts, planted bugs and mutants."""
