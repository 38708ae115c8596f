"""Output of the command line: screens, rows in all formats, documents, exit status."""
