"""Raw files to a prepared corpus: plan, read, tokenize, write."""
