"""One file a task, from labelled file to score; what they share beside them."""
