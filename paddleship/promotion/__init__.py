"""Whether a challenger may replace the champion, and what served when."""
