"""Inputs of operators: sources that can be read again, merged into one order."""
