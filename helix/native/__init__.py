"""The inner loops in C (`*.c`), the same in NumPy (`reference/`), and a module for each that checks its arguments."""
