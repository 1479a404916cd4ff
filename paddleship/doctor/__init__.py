"""Whether and how a model converts, before anyone waits for a conversion."""
