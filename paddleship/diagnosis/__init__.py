"""Find out why a candidate is wrong, and in which layer, line or optimisation pass."""
