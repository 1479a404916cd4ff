"""What a server tells about its requests: lines of the log, and spans for a collector."""
