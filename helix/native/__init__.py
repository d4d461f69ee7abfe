"""The inner loops in C (`*.c`), and a Python module for each that says what its functions take."""
