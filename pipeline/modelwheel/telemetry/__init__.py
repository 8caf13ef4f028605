"""Views of a build for others, while it runs and afterwards: events, metrics, traces, a page."""
