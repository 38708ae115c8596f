"""`make release`: everything that a release has, built from a clean clone and checked."""
