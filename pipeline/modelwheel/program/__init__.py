"""The program that a wheel executes: the steps of a program, and the memory that they read and write."""
