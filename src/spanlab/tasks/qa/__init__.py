"""Extractive question answering, with or without an answer."""
