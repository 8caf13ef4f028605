"""Spec files for the tests: sound ones, and broken ones named after their defect."""
