"""The steps of a build, and what runs them."""
