"""The shipped recipes as YAML, one per system, with the published settings."""
