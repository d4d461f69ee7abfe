"""Facts stated in a turn: subject–relation–object triples, by guarded patterns, without a model."""
