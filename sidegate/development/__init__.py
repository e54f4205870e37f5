"""The development environment: CA, issuer, state folder, and the runner of `sidegate up`."""
