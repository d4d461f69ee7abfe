"""Logs with planted secrets and look-alikes at known places: templates as data, their rendering, and a score."""
