"""What a GPU can prove about this project: `make gpu-wheels`, `make gpu-check`."""
