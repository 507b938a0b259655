#!/usr/bin/env bash
# What `vgpu run --stats` and `vgpu ps --json` say of the device's time is what the simulator's book says, within 5 % for
# kernels and graphs under a cap; of what nothing limits only one launch in 32 is looked at, and stands for the others.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

run() { # name, device, options of vgpu run, --, words for the load
    local name=$1 device=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    SIMGPU_GROUP=$name CUDA_VISIBLE_DEVICES=$device "$vgpu" run --name "$name" --stats "${options[@]}" -- \
        "$TEST_SIMTEST" load "$@" >"$TEST_WORK/$name.out" 2>"$TEST_WORK/$name.err"
}
run capped 0 --cores 40 -- us=1000 secs=1.2 sync=4 &
run graphs 1 --cores 40 -- us=3000 nodes=6 way=graph secs=1.2 sync=2 &
run unlimited 2 -- us=300 secs=1.2 sync=4 &
run copies 3 --copy-bw 1G -- us=2000 way=memset secs=1.2 sync=4 &
sleep 1.1
"$vgpu" ps --json >"$TEST_WORK/ps.json" || die "ps fails"
"$TEST_SIMCTL" ledger >"$TEST_WORK/now"
wait
"$TEST_SIMCTL" ledger >"$TEST_WORK/end"
python3 - "$TEST_WORK" <<'P' || exit 1
import json, re, sys
work = sys.argv[1]
def book(file, group):
    return sum(int(m) for m in re.findall(rf"^group {group} .* busy_ns=(\d+)", open(f"{work}/{file}").read(), re.M))
def seconds(number, unit):
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
def near(what, told, truth, part):
    print(f"{what}: {told:.4f} told, {truth:.4f} true")
    assert abs(told - truth) <= part * truth, what
ps = {i["name"]: i for i in json.load(open(f"{work}/ps.json"))["instances"]}
for name, kind, cap, part in (("capped", "kernel", 40, 0.05), ("graphs", "graph", 40, 0.05),
                              ("unlimited", "kernel", None, 0.1), ("copies", "memset", None, 0.25)):
    stats = open(f"{work}/{name}.err").read()
    devices = re.finditer(r"^(\d+) +GPU-\w+ +([\d.]+) (s|ms|us) +[\d.]+% +(\S+) ", stats, re.M)
    device = [d for d in devices if float(d[2]) > 0]
    assert len(device) == 1, stats
    device = device[0]
    truth = book("end", name) / 1e9
    near(f"{name}: --stats", seconds(device[2], device[3]), truth, part)
    assert device[4] == (f"{cap}%" if cap else "none"), device[0]
    row = re.search(rf"^{device[1]} +{kind} +(\d+) +([\d.]+) (s|ms|us)$", stats, re.M)
    assert row, stats
    near(f"{name}: its {kind}s", seconds(row[2], row[3]), truth, part)
    starts = int(re.search(r"starts=(\d+)", open(f"{work}/{name}.out").read())[1])
    near(f"{name}: calls", int(row[1]), starts, part)
    shown = [d["compute"] for d in ps[name]["devices"] if d["compute"]["gpu_ns"]]
    assert len(shown) == 1, ps[name]
    near(f"{name}: ps", shown[0]["gpu_ns"] / 1e9, book("now", name) / 1e9, part + 0.03)
    if cap:
        assert shown[0]["cap_percent"] == cap and shown[0]["throttles"] > 0, shown
        assert 0.33 <= shown[0]["last_second_share"] <= 0.42, shown
P
