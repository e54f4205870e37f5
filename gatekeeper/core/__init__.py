"""The way to the core: connections, requests, and the pool of them."""
