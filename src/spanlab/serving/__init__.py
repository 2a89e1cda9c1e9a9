"""HTTP over inference: windows of all waiting requests are computed together, and results leave as JSON."""
