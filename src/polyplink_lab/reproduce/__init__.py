"""The published tables as data, their encoders, and our figures in comparison."""
