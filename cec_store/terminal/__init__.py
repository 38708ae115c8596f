"""How answers leave the command line: screens, rows in all formats, documents, exit status."""
