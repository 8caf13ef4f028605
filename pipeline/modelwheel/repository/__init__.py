"""A repository of one's own: the files that `modelwheel init` writes and `modelwheel update` renews."""
