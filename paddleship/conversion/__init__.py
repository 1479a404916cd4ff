"""From the checkpoint to candidates: export, conversion, quantisation, tuning."""
