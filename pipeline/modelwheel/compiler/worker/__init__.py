"""The part of modelwheel that imports TensorFlow: a process that reads jobs as lines of JSON."""
