"""Mutated files of every kind that the product reads; each must be read, or refused with a typed error."""
