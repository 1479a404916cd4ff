"""Small models of our own, one per known trap and one per kind of structure, each with the outcome that it must have.

`python -m benchmarks.zoo` examines them all and prints a table; `python -m benchmarks.zoo NAME…` some of them.
"""
