"""The /v1 wire: who is admitted, appends, reads, streams and the routes of everything else."""
