"""Whether a challenger may take the champion's place, and what served when."""
