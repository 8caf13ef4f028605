"""The process of a worker: reads jobs, runs each in a child, answers."""
