"""Which steps may compute only the first rows of a batch, because nobody reads the others."""
