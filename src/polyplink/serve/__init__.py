"""The review desk: a local page on which a person checks and corrects a count."""
