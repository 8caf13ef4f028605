"""What others see of a build while it runs and afterwards: events, metrics, traces, a page."""
