"""Evaluation of vectors (retrieval, re-identification, counting, tracking) and of detectors."""
