"""What happens when: looks, camera, conditions and boxes of a procedure."""
