"""Why a candidate is wrong, and where it begins to be."""
