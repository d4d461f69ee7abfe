"""Slots: readers of the object of a relation. Each returns the objects at the begin of a text, or [] for none."""
