"""The whole job on what is installed: text to corpus, pre-training, fine-tuning, scores, a page; what a newcomer runs."""
