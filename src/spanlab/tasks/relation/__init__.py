"""Relations between the entities of a text."""
