"""The only package that uses DVC and git: the graph of stages, how one runs, and the folder it runs in."""
