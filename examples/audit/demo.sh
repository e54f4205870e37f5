#!/bin/sh
# An audit that finds what was planted. Usage: sh examples/audit/demo.sh
# Needs Spark (make audit installs it) and a mesh that has run in this folder; touches a copy only.
set -eu
sidegate=${SIDEGATE:-.venv/bin/sidegate}
state=${SIDEGATE_STATE:-.sidegate}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n== %s\n' "$*"; }

say "A copy of the log"
"$sidegate" log backup "$state/data/core" "$work/data/core"

say "The copy is audited: sound"
"$sidegate" audit report --log "$work/data/core" --out "$work/honest" 2>/dev/null

say "One byte in the middle of the log is changed, and it is audited again"
segment=$(find "$work/data/core" -maxdepth 1 -name '*.seg' | sort | head -n 1)
size=$(wc -c < "$segment")
printf '\377' | dd of="$segment" bs=1 seek=$((size / 2)) conv=notrunc 2>/dev/null
"$sidegate" audit report --log "$work/data/core" --out "$work/changed" 2>/dev/null && exit 1
[ $? -eq 1 ] # 1 means findings; 2 would mean that it could not run

say "The last batch is cut off, as if it had never been"
truncate -s $((size - 100)) "$segment"
"$sidegate" audit report --log "$work/data/core" --out "$work/cut" 2>/dev/null && exit 1
[ $? -eq 1 ]
cp "$work/changed/report.html" "${REPORT:-audit-report.html}"
say "The page with the findings: ${REPORT:-audit-report.html}"
