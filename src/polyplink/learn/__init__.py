"""Learning: bags and batches, losses, curricula, the training loop."""
