"""Named entities, flat or nested."""
