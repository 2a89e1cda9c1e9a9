"""The whole job on what is installed, as a newcomer runs it: text, pre-training, fine-tuning, scores and a page."""
