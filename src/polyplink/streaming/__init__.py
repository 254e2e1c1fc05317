"""Counting while a procedure runs: sources, the current count, events and the page."""
