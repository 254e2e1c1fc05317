"""What a user asks for: one module per verb, and the command line built from their requests."""
