"""Extractive summarisation."""
