"""The folder of a checkout with the state of its servers and runs."""

FOLDER = ".paddleship"
