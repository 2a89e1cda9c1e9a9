"""A recipe becomes a run: corpus, corruption, encoder and objectives wired together."""
