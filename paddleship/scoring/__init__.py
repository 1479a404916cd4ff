"""What the score of a trained model is worth: beside a constant answer and a linear model, and class by class."""
