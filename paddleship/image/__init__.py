"""What an image will hold: pinned packages, their size, and a process confined to them."""
