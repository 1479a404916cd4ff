"""The door to Docker: build and inspect images, run containers with restricted rights."""
