"""What apps see: HTTP, WebSockets and the line protocol, with types, guard and description."""
