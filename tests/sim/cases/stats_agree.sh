#!/usr/bin/env bash
# What `vgpu run --stats` and `vgpu ps --json` say of the device's time is what the simulator's book says, within 5 % for
# kernels and graphs under a cap. Of what nothing limits, one launch a second is measured and stands for the others: on a
# busy machine that is one of a few, so the figure is good to a quarter.
# shellcheck source-path=SCRIPTDIR source=lib.sh
source "$(dirname "$0")/lib.sh"

run() { # name, device, options of vgpu run, --, words for the load
    local name=$1 device=$2 options=()
    shift 2
    while [ "$1" != -- ]; do options+=("$1") && shift; done
    shift
    SIMGPU_GROUP=$name CUDA_VISIBLE_DEVICES=$device "$vgpu" run --name "$name" --stats "${options[@]}" -- \
        "$TEST_SIMTEST" load secs=600 "$@" >"$TEST_WORK/$name.out" 2>"$TEST_WORK/$name.err" &
    runs+=($!)
}
runs=()
run capped 0 --cores 40 -- us=1000 sync=4
run graphs 1 --cores 40 -- us=3000 nodes=6 way=graph sync=2
run unlimited 2 -- us=300 sync=4
run copies 3 --copy-bw 1G -- us=2000 way=memset sync=4

cat >"$TEST_WORK/check.py" <<'P'
import json, re, sys
work, what = sys.argv[1:]
LOADS = (("capped", "kernel", 40, 0.05), ("graphs", "graph", 40, 0.05), ("unlimited", "kernel", None, 0.25), ("copies", "memset", None, 0.25))
def book(file, group):
    return sum(int(m) for m in re.findall(rf"^group {group} .* busy_ns=(\d+)", open(f"{work}/{file}").read(), re.M)) / 1e9
def seconds(number, unit):
    return float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit]
def near(what, told, least, most, part):
    print(f"{what}: {told:.4f} told, {least:.4f} to {most:.4f} true")
    assert least * (1 - part) <= told <= most * (1 + part), what
def meanwhile():
    ps = {i["name"]: i for i in json.load(open(f"{work}/ps.json"))["instances"]}
    for name, kind, cap, part in LOADS:
        shown = [d["compute"] for d in ps[name]["devices"] if d["compute"]["gpu_ns"]]
        assert len(shown) == 1, ps[name]
        assert book("before", name) > 0.4, name # of four launches at a time some are not counted yet
        near(f"{name}: ps", shown[0]["gpu_ns"] / 1e9, book("before", name), book("after", name), part + 0.03)
        if cap:
            assert shown[0]["cap_percent"] == cap and shown[0]["throttles"] > 0, shown
            assert 0.33 <= shown[0]["last_second_share"] <= 0.42, shown
def end():
    for name, kind, cap, part in LOADS:
        stats = open(f"{work}/{name}.err").read()
        devices = re.finditer(r"^(\d+) +GPU-\w+ +([\d.]+) (s|ms|us) +[\d.]+% +(\S+) ", stats, re.M)
        device = [d for d in devices if float(d[2]) > 0]
        assert len(device) == 1, stats
        device = device[0]
        truth = book("end", name)
        near(f"{name}: --stats", seconds(device[2], device[3]), truth, truth, part)
        assert device[4] == (f"{cap}%" if cap else "none"), device[0]
        row = re.search(rf"^{device[1]} +{kind} +(\d+) +([\d.]+) (s|ms|us)$", stats, re.M)
        assert row, stats
        near(f"{name}: its {kind}s", seconds(row[2], row[3]), truth, truth, part)
        starts = int(re.search(r"starts=(\d+)", open(f"{work}/{name}.out").read())[1])
        near(f"{name}: calls", int(row[1]), starts, starts, part)
{"meanwhile": meanwhile, "end": end}[what]()
P

agree() {
    "$TEST_SIMCTL" ledger >"$TEST_WORK/before" && "$vgpu" ps --json >"$TEST_WORK/ps.json" &&
        "$TEST_SIMCTL" ledger >"$TEST_WORK/after" && python3 "$TEST_WORK/check.py" "$TEST_WORK" meanwhile
}
wait_for agree
for run in "${runs[@]}"; do kill -TERM "$run"; done
for run in "${runs[@]}"; do wait "$run" || die "a load has ended with $?"; done
"$TEST_SIMCTL" ledger >"$TEST_WORK/end"
python3 "$TEST_WORK/check.py" "$TEST_WORK" end || exit 1
