"""Recipes: one function per published row."""
