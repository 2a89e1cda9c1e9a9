"""What tasks that predict spans share: span vectors, units that carry labels, pruning, drawing."""
