"""Decisions of a project: what holds at a moment by topic, what it replaced, and what was rejected."""
