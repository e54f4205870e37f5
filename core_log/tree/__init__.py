"""The Merkle tree over all leaves: tiles, checkpoints, the keys that sign them, and proofs."""
