"""The user's control flow: where the code can go two ways, what export made of it, and which ways were taken."""
