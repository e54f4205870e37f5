#!/bin/sh
# A client in a shell: curl publishes, curl reads. Usage: sh examples/shell/demo.sh [TOPIC]
set -eu
sidecar=${SIDEGATE_URL:-http://localhost:9000}
topic=${1:-shell.demo}

# -f: a refusal ends the script. --retry waits as long as Retry-After says, on 429 and 503.
# The id makes it safe: however often it is sent, the message is published once.
ask() { curl --silent --show-error --fail-with-body --noproxy '*' --write-out '\n' "$@"; }

say() { printf '\n%s\n' "$*" >&2; }

say "One message, as JSON:"
ask --retry 5 "$sidecar/publish" -d "{\"topic\":\"$topic\",\"message\":{\"n\":1},\"id\":\"demo-$$\"}"

say "The same again is recognised by its id, and has the same offset:"
ask --retry 5 "$sidecar/publish" -d "{\"topic\":\"$topic\",\"message\":{\"n\":1},\"id\":\"demo-$$\"}"

say "Many messages: each line is one."
printf '{"n":2}\n{"n":3}\n{"n":4}\n' | ask "$sidecar/publish/$topic/lines" --data-binary @-

say "All of them, pulled:"
ask "$sidecar/messages/$topic?offset=0&limit=10"

say "And as a stream, one line of JSON each; it would go on for ever, so it is ended after 2 seconds:"
curl --silent --noproxy '*' --no-buffer --max-time 2 -H 'Accept: application/x-ndjson' \
    "$sidecar/subscribe/$topic?from=earliest" || [ $? -eq 28 ]
