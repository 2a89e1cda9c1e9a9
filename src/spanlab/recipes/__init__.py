"""Recipes as YAML, one per system: what a published system is, line by line."""
