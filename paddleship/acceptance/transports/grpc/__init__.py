"""Test a server over gRPC: requests and answers as tritonclient writes and reads them."""
