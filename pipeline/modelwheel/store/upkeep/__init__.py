"""Stores as a whole: what they hold, what may go, whether they are sound, copies of them."""
