"""Counting while a procedure runs: its sources, the count so far, its events and its page."""
