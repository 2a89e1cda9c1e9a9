"""Token ids in, token ids out: a causal encoder goes on with prompts, by greedy search, sampling or beam search."""
