"""The side of modelwheel that imports TensorFlow: a process that is given jobs as lines of JSON."""
