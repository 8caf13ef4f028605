"""Sides of a comparison that need packages of their own."""
