"""The functions of `helix/native/*.c` in NumPy, used where no library was built: a Python module for each C file.

They have the same names, arguments and return codes, and give the same bits. Addresses are numbers, or bytes.
"""
