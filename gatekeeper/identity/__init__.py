"""Who is calling: certificates, trust domains, tokens, keys and revocations.

Decides nothing about what they may do.
"""
