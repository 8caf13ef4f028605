"""The report on whose errors are whose, over the zoo and the published models."""
