"""Test a server over HTTP, with tensors in JSON: requests and answers as tritonclient writes and reads them."""
