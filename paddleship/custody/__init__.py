"""Custody: what each out was made from, by digest, and the refusal of anything else."""
