"""The code that goes into the image: candidates, their preprocessing, the runtimes and the server."""
