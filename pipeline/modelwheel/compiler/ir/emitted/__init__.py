"""Records of what XLA emits, with memory in them: the form of the passes that are not on the graph yet."""
