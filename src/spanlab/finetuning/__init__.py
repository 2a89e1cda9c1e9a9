"""How tasks are trained: one or several, whole, by adapters, or added to a model."""
