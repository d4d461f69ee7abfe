"""The deep tier: a language model rewrites the question and orders the items; docs/explanation/tiers.md.

`context` is what a deep recall needs, `fusion` its arithmetic, `ask` the requests, `jobs` the files between a query
process and a worker.
"""
