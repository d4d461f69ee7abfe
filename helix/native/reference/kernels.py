"""All functions of this package, by name."""

from helix.native.reference.graph import graph_degrees, graph_edges, graph_find
from helix.native.reference.lists import build_code_table, encode_pieces, round_to_steps, search_lists
from helix.native.reference.pieces import add_pieces, count_pieces
from helix.native.reference.postings import search_postings
from helix.native.reference.rows import find_distinct, fuse_legs, list_neighbours
from helix.native.reference.terms import count_terms, find_ngrams, score_joined
from helix.native.reference.vectors import score_neighbours, score_tokens, score_vectors
from helix.native.reference.zones import filter_int32, filter_int64, filter_uint8

__all__ = [
    "add_pieces", "build_code_table", "count_pieces", "count_terms", "encode_pieces", "filter_int32", "filter_int64",
    "filter_uint8", "find_distinct", "find_ngrams", "fuse_legs", "graph_degrees", "graph_edges", "graph_find",
    "list_neighbours", "round_to_steps", "score_joined", "score_neighbours", "score_tokens", "score_vectors",
    "search_lists", "search_postings",
]  # fmt: skip
