"""Scripts that serve a candidate with another model server, each run as `python SCRIPT CANDIDATE PORT` in an environment of its own."""
