"""Storage of bytes: the contract of a folder, local files, names on disk and whole trees."""
