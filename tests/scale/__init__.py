"""Hundreds of models on many machines: small models for a cluster, a simulation of large releases, a demonstration."""
