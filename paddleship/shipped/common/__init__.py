"""What training, proof and the server share: how a model is described, prepared and named."""
