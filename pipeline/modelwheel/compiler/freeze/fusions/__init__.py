"""The implementations that modelwheel has itself; `modelwheel.model.fusions.registry` lists them."""
