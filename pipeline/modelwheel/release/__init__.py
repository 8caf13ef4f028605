"""The wheels of a release: which, how they are built, how they are measured."""
