"""The kinds of tasks, as far as an image needs them: what the first output decides, and what a server calls it. One file each."""
