"""Charts for reports."""
