"""Scores of gold and predicted labels, spans, clusters and texts, by the rules of the field's official scorers.

Every scoring function is pure and returns a dict with the names that `evaluate` prints: percentages from 0 to 100,
correlations from -1 to 1. Import from the modules: `scipy` is loaded only by those that need it.
"""
