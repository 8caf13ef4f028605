"""The collection in `model_specs/`: its table in README.md, and a picture of what each model does."""
