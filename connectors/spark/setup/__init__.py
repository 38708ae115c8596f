"""Switching the provider on: settings, the jar, Java, the session."""
