"""The central log: accepts batches from gatekeepers, appends, syncs, broadcasts. Nothing else."""
