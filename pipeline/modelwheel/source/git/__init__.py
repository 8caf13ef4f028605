"""Models in git repositories: what is fetched, Git LFS, and checkouts of this machine."""
