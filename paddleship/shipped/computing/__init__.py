"""What computes an answer: candidates, preprocessing, runtimes. Its hash is part of the identity of a candidate."""
