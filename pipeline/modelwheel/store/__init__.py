"""The content-addressed store of finished steps."""
