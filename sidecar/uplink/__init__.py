"""The way to the gatekeepers: mTLS, tokens, requests under way, and what topics there are."""
