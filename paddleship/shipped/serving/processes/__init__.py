"""Several processes that answer on the same ports: each with a model of its own, below one that only starts and replaces them."""
