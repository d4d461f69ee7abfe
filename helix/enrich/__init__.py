"""Enrichment of items: pieces, types, salience, trust, facts, questions and near-duplicates."""
