"""Computations of fusions as what they mean: activations, softmax, masks, epilogues."""
