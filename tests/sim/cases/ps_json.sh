#!/usr/bin/env bash
# `vgpu ps --json` of a running instance: quota, what is used by kind, processes, refusals; the same as the truth.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"
"$vgpu" run --name shown --mem 1G -- sh -c '"$0" cap 1073741824; exec "$0" hold 30' "$TEST_SIMTEST" >/dev/null 2>&1 &
runner=$!
wait_for_file "$TEST_WORK/holding"
"$vgpu" ps --json >"$TEST_WORK/ps.json" || die "ps fails"
truth=$("$TEST_SIMCTL" ledger | awk '$1 == "group" && $2 == "test" { sub("total=", "", $4); print $4 }')
kill "$runner"
wait "$runner"
python3 - "$TEST_WORK/ps.json" "$truth" <<'P' || exit 1
import json, sys
shown = [i for i in json.load(open(sys.argv[1]))["instances"] if i["name"] == "shown"][0]
device = shown["devices"][0]
truth = int(sys.argv[2])
assert device["quota_bytes"] == 1 << 30, device
assert device["used_bytes"] == truth > 0, (device, truth)
assert device["used_by_kind"]["context"] == truth, device
assert sum(device["used_by_kind"].values()) == truth, device
assert device["refusals"] == 1, device
assert len(shown["processes"]) == 1, shown["processes"]
assert shown["processes"][0]["held"][0]["used_bytes"] == truth
last = shown["refusals"]["last"]
assert last["api"].startswith("cuMemAlloc"), last
assert last["size_bytes"] == 16 << 20 and last["quota_bytes"] == 1 << 30, last
assert 0 < last["used_bytes"] <= 1 << 30 and last["pid"] > 0, last
P
"$vgpu" ps --json | python3 -c 'import json, sys; assert not json.load(sys.stdin)["instances"]' || die "the instance outlives its processes"
