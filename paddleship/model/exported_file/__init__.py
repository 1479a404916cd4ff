"""An exported program of Paddle as the model, without its Python class: train.source.exported."""
