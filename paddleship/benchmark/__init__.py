"""Participants side by side on this machine as it is now, and the choice among them."""
