"""The first run of a newcomer, without network: text, pre-training, fine-tuning, scores and a report."""
