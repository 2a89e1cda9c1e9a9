"""A model folder at work: load it, give it text, get typed results."""
