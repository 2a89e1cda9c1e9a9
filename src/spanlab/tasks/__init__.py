"""Fine-tuning: one file a task, and the frame that carries all of them from a labelled file to scored results."""
