"""The implementations that modelwheel has itself; `modelwheel.compiler.fusions` lists them."""
