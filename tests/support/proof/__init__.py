"""`make proof`: what was tried at which tree of the product, and what PROOF.md says of it."""
