"""What every room stands on: errors, artefacts, worker processes, compiled functions."""
