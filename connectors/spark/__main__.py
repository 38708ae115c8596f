"""`python -m cec_store.connectors.spark` prints the path of the provider's jar."""

from cec_store.connectors.spark import jar

print(jar())
