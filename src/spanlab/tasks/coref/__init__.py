"""Coreference resolution, end to end."""
