"""The content of an image: pinned packages, their size, and a process restricted to them."""
