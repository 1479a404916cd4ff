"""Small models, one per known trap and one per kind of structure, each with its expected outcome.

`python -m benchmarks.zoo` examines all of them and prints a table; `python -m benchmarks.zoo NAME…` examines some.
"""
