"""Text generation with a causal encoder: token ids in, token ids out, by greedy search, sampling or beam search."""
