"""Code that training, proof and server share: descriptions of models, their preprocessing and their names."""
