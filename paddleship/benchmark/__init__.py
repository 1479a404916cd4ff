"""Measure participants side by side on this machine, and choose the candidate that ships."""
