"""From similarities and times to identities: clustering, grid search, link probabilities."""
