#!/usr/bin/env python3
"""Caps and turns on a real card: each figure beside its bar.

usage: compute.py --probe PATH [--torch PATH] [--vgpu PATH] [--only SECTION,...] [--rounds N] [--json FILE] [--quick]

--probe  a program that prints one JSON line: `load --us N --secs N [--sync N --graph N]` runs kernels of a fixed amount of work and
         prints share (kernels done x their length alone / wall time), steady_share and window_sd (over 100 ms windows); `latency`
         prints launch_us_p50, launch_us_mean, launch_sync_us_p50 and graph_launch_us_p50.
--torch  a Python program: `PROGRAM {matmul|train|decode} SECS`, which prints steps_per_s, p50_ms and p99_ms.
Whatever is compared runs in this one call, in turn. Changes no setting of the card.
"""
import argparse
import json
import statistics
import sys
import time

from common import RESULTS, Bench, calibrate, record, shares


def caps(bench):
    kinds = [("20 us", 20, {}, 0.02, 1), ("200 us", 200, {}, 0.01, 0.01), ("2 ms", 2000, {}, 0.01, 0.01), ("20 ms", 20000, {}, 0.01, 0.03),
             ("200 us, 64 in flight", 200, {"sync": 64}, 0.01, 0.01), ("graph of 20 x 200 us", 200, {"graph": 20}, 0.01, 0.01)]
    for name, us, more, near, sd in kinds:
        natural = bench.one(None, bench.load(us, 1, **more))
        for cap in (10, 25, 50, 75, 90):
            row = bench.one(f"--cores {cap}", bench.load(us, 4 if us >= 20000 else 2.5, **more))
            if not row or not natural:
                record("cap", f"{name}, {cap} %", "failed", "", False)
                continue
            target = min(cap / 100, natural["steady_share"])
            off = row["steady_share"] - target
            record("cap", f"{name}, {cap} % (natural {natural['steady_share']:.3f})", f"{row['steady_share']:.4f} sd {row['window_sd']:.4f}",
                   f"{target:.3f} +-{near}, sd <= {sd}", abs(off) <= near and row["window_sd"] <= sd)


def pair(bench):
    rows = bench.many([("--cores 30", bench.load(1000, 4)), ("--cores 60", bench.load(1000, 4))])
    for row, cap in zip(rows, (0.3, 0.6)):
        record("two caps", f"1 ms kernels, {cap:.0%}", f"{row['steady_share']:.4f} sd {row['window_sd']:.4f}" if row else "failed", f"{cap} +-0.01",
               bool(row) and abs(row["steady_share"] - cap) <= 0.01)


def torch_caps(bench):
    for mode in ("matmul", "decode", "train"):
        bare = [bench.one(None, bench.torch(mode, 3))]
        for cap in (25, 50):
            row = bench.one(f"--cores {cap}", bench.torch(mode, 4))
            if cap == 25:
                bare.append(bench.one(None, bench.torch(mode, 3)))
            if not row or not all(bare):
                record("torch cap", f"{mode}, {cap} %", "failed", "", False)
                continue
            base = statistics.mean(b["steps_per_s"] for b in bare)
            ratio = row["steps_per_s"] / base
            good = abs(ratio - cap / 100) <= 0.03 * cap / 100 if mode != "train" else None
            record("torch cap", f"{mode}, {cap} %", f"{ratio:.3f} p99/p50 {row['p99_ms'] / row['p50_ms']:.2f}",
                   f"{cap / 100} +-3 %, p99 <= 2 x p50" if mode != "train" else "of its natural share", good and row["p99_ms"] <= 2 * row["p50_ms"] if good is not None else None)


def latency(bench):
    probe = [bench.args.probe, "latency"]
    rows = {None: [], "": [], "--cores 99": []}
    for i in range(3):
        for options in (list(rows) if i % 2 == 0 else list(rows)[::-1]):
            row = bench.one(options if options != "" else "--weight 100", probe)
            if row:
                rows[options].append(row)
    for field in ("launch_us_p50", "launch_us_mean", "launch_sync_us_p50", "graph_launch_us_p50"):
        best = {k: min(r[field] for r in v) for k, v in rows.items()}
        record("latency", f"{field}: native, no limit, cap not reached", " ".join(f"{b:.3f}" for b in best.values()), "best of 3; +0.03 p50, +0.15 mean", None)
    if not bench.args.torch:
        return
    for mode in ("train",):
        ratios = []
        for i in range(bench.args.rounds):
            a, b = (bench.one(o, bench.torch(mode, 3)) for o in ((None, "--weight 100") if i % 2 == 0 else ("--weight 100", None)))
            if a and b:
                ratios.append(b["steps_per_s"] / a["steps_per_s"] if i % 2 == 0 else a["steps_per_s"] / b["steps_per_s"])
        record("latency", f"torch {mode}, no limit / native", " ".join(f"{r:.3f}" for r in ratios), ">= 0.99 (median)",
               bool(ratios) and statistics.median(ratios) >= 0.99)


def turns(bench):
    cases = [("two equal, 1 ms", [("", 1000)] * 2, 0.97), ("four equal, 0.5 ms", [("", 500)] * 4, 0.95)]
    for name, tenants, bar in cases:
        native = shares(bench.many([(None, bench.load(us, 3)) for _, us in tenants]))
        rows = shares(bench.many([(f"--weight 100 {o}", bench.load(us, 4)) for o, us in tenants]))
        jain = sum(rows) ** 2 / (len(rows) * sum(r * r for r in rows)) if sum(rows) else 0
        record("turns", name, " ".join(f"{r:.4f}" for r in rows) + f" = {sum(rows):.4f}", f"sum >= {bar} (native {sum(native):.3f})", sum(rows) >= bar)
        record("turns", f"{name}: Jain's index", f"{jain:.5f}", ">= 0.999", jain >= 0.999)
    a, b = shares(bench.many([("--weight 100", bench.load(1000, 4)), ("--weight 300", bench.load(1000, 4))]))
    total = a + b or 1
    record("turns", "weights 1:3, 1 ms", f"{a:.4f} {b:.4f}", "within 0.015 of .25/.75 of the sum", abs(a / total - .25) <= .015)
    a, b = shares(bench.many([("--weight 100", bench.load(100, 4)), ("--weight 100", bench.load(5000, 4))]))
    record("turns", "100 us against 5 ms", f"{a:.4f} {b:.4f}", "both within 0.03 of half the sum", abs(a - b) / 2 <= .03 and a + b > 0.5)
    a, b = shares(bench.many([("--weight 100", bench.load(20, 4)), ("--weight 100", bench.load(50000, 4))]))
    record("turns", "20 us against 50 ms", f"{a:.4f} {b:.4f}", "for information", None)


def beside(bench):
    """Two programs side by side, against each alone and against the driver's own sharing, in turn."""
    decode, matmul = bench.torch("decode", 8), bench.torch("matmul", 8)
    alone = {name: bench.one(None, bench.torch(name, 3)) for name in ("decode", "matmul")}
    for label, high, low in (("native", None, None), ("priority", "--priority 200 --policy priority", "--priority 0")):
        d, m = bench.many([(high, decode), (low, matmul)])
        if not d or not m:
            record("priority", label, "failed", "", False)
            continue
        dn, mn = d["steps_per_s"] / alone["decode"]["steps_per_s"], m["steps_per_s"] / alone["matmul"]["steps_per_s"]
        p99 = d["p99_ms"] / alone["decode"]["p99_ms"]
        record("priority", f"decode + matmul, {label}", f"p99 {p99:.2f} x alone; {dn:.3f} + {mn:.3f}",
               "p99 <= 1.5; matmul >= 90 % of what is left" if high else "", (p99 <= 1.5 and mn >= 0.9 * (1 - dn)) if high else None)


def mixed(bench):
    train, matmul = bench.torch("train", 6), bench.torch("matmul", 6)
    base, rates = {"train": [], "matmul": []}, {"native": [], "fair": []}
    for i in range(bench.args.rounds):
        for name in base:
            base[name].append(bench.one(None, bench.torch(name, 3)))
        for label in (list(rates) if i == 0 else list(rates)[::-1]):
            options = None if label == "native" else f"--policy {label}"
            rates[label].append(bench.many([(options, train), (options, matmul)]))
    if any(not row for rows in base.values() for row in rows) or any(not row for runs in rates.values() for run in runs for row in run):
        record("mixed", "training + matmul", "failed", "", False)
        return
    whole = {name: statistics.mean(r["steps_per_s"] for r in rows) for name, rows in base.items()}
    native = None
    for label, runs in rates.items():
        t = statistics.mean(run[0]["steps_per_s"] for run in runs) / whole["train"]
        m = statistics.mean(run[1]["steps_per_s"] for run in runs) / whole["matmul"]
        native = native or (t, m)
        record("mixed", f"training + matmul, {label}", f"{t:.3f} + {m:.3f} = {t + m:.3f}",
               "" if label == "native" else f"each >= native, sum >= {1.05 * sum(native):.3f}",
               None if label == "native" else t >= native[0] and m >= native[1] and t + m >= 1.05 * sum(native))
    print("# steps/s, " + "; ".join(f"{k}: " + ", ".join(f"{a['steps_per_s']:.0f}+{b['steps_per_s']:.0f}" for a, b in v) for k, v in rates.items()), flush=True)


def endless(bench):
    if not bench.args.endless:
        return
    forever = bench.start("--weight 100", [bench.args.endless, "8"])
    time.sleep(2)
    row = bench.one("--weight 100", bench.load(1000, 3))
    forever.wait()
    record("endless", "1 ms kernels beside a kernel that does not end", f"{row['share']:.4f}" if row else "failed", "progress (about half)",
           bool(row) and row["share"] > 0.3)


SECTIONS = {"caps": caps, "pair": pair, "torch": torch_caps, "latency": latency, "turns": turns, "beside": beside, "mixed": mixed, "endless": endless}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe", required=True)
    parser.add_argument("--torch")
    parser.add_argument("--endless", help="a program whose kernel runs for as many seconds as its argument says")
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--only", default=",".join(SECTIONS))
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=2, help="of the pairs that PyTorch runs in")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    bench = Bench(args)
    calibrate(bench)
    for name in args.only.split(","):
        if name in ("torch", "beside", "mixed") and not args.torch:
            continue
        begin = time.time()
        SECTIONS[name](bench)
        print(f"# {name}: {time.time() - begin:.0f} s", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(RESULTS, file, indent=1)
    sys.exit(any(r["ok"] is False for r in RESULTS))


if __name__ == "__main__":
    main()
