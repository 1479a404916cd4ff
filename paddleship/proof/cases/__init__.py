"""The cases of a proof: rows, sizes, ids and edges that eager and every candidate answer."""
