#!/bin/sh
# Two services, a denial, and how it is solved. Usage: sh examples/denial/demo.sh
# Needs the mesh of `make up`; adds a service `warehouse` to it, with a sidecar of its own.
set -eu
sidegate=${SIDEGATE:-.venv/bin/sidegate}
state=${SIDEGATE_STATE:-.sidegate}

say() { printf '\n== %s\n' "$*"; }
ask() { curl --silent --show-error --noproxy '*' "$@"; echo; }

say "A second service: key, certificate, OAuth client, policy entry, sidecar configuration"
"$sidegate" service add warehouse --state "$state"
sidecar=http://$(sed -n 's/^listen: "\(.*\)"/\1/p' "$state/warehouse.yaml")

"$sidegate" sidecar --config "$state/warehouse.yaml" 2>"$state/run/warehouse.log" &
pid=$!
trap 'kill $pid' EXIT
# The sidecar takes messages from its first moment, but this is about the gatekeeper's answer.
until ask "$sidecar/status" 2>/dev/null | grep -q '"uplink":"connected"'; do
    kill -0 $pid || { cat "$state/run/warehouse.log"; exit 1; }
done

say "warehouse publishes to a topic that is not its own: denied"
ask "$sidecar/publish" -d '{"topic":"stock","message":{"sku":7,"left":3}}'

say "Why?"
"$sidegate" policy explain --file "$state/policy.yaml" --as warehouse --do publish --on stock || :

say "So allow it; the gatekeeper takes it up within a second"
"$sidegate" service add warehouse --publish stock --state "$state"

say "The same message again"
ask "$sidecar/publish" -d '{"topic":"stock","message":{"sku":7,"left":3}}'
