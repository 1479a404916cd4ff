"""The model server: a core that answers columns of rows, and transports that carry requests and answers."""
