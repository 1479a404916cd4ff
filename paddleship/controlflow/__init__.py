"""The control flow of the user's code: its branches, what export made of them, and which of them the inputs took."""
