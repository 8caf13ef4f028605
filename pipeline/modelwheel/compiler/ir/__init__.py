"""XLA's program before it becomes steps: instructions, values, memory."""
