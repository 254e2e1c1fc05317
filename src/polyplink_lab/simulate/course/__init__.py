"""The course of a procedure: looks, camera path, conditions and boxes over time."""
