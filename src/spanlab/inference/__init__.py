"""From a model folder and a text to typed results with character offsets."""
