"""The `sidegate` command: the development mesh, the services as processes, the checker."""
