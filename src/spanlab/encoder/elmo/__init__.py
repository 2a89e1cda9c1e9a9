"""What only ELMo has: a character CNN and LSTMs with projections."""
