#!/bin/sh
# The line protocol with netcat. Usage: sh examples/tcp/demo.sh [TOPIC]
set -eu
host=${SIDEGATE_TCP_HOST:-127.0.0.1}
port=${SIDEGATE_TCP_PORT:-9001}
topic=${1:-tcp.demo}
payload='{"order_id":101}'

command -v nc >/dev/null || { echo "needs netcat: install netcat-openbsd" >&2; exit 2; }

# -w 1: netcat ends when nothing has come for a second.
printf 'PUB %s %d\r\n%s' "$topic" "${#payload}" "$payload" | nc -w 1 "$host" "$port"
printf 'FETCH %s 0\r\n' "$topic" | nc -w 1 "$host" "$port"
echo
