"""Texts: terms, names, entities, dates and titles in them."""
