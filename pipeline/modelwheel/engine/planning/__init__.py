"""What a build would do, why, and what it would take."""
