"""What all stages share: the frame that reads params and writes the report, and the fingerprint of the machine."""
