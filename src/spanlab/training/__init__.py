"""The training loop of pre-training and fine-tuning; it knows no objective and no task by name."""
