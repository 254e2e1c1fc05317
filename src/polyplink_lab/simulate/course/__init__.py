"""The course of a procedure: looks, camera, conditions and boxes over time."""
