#!/usr/bin/env python3
"""A decoder beside a matrix product that starts meanwhile: how long its steps take, by policy.

usage: neighbour.py [--vgpu PATH] [--policies native,fair,...] [--rounds N] [--json FILE]

The decoder runs alone for ALONE_S, then the neighbour is started. `alone` is the time before that, `start` the 5 s that begin with the
neighbour's first launch, `process` the 5 s that begin with its process, `both` what follows while both run. Bars: priority: p99 of `start`
<= 1.1 x p99 alone; fair: p99 <= .75 ms. Needs PyTorch. Exit status 1 where the median of the rounds misses a bar.
"""
import argparse
import json
import os
import statistics
import sys
import threading
import time

from common import Bench

HERE = os.path.dirname(os.path.abspath(__file__))
ALONE_S, BOTH_S, WINDOW_S = 3, 9, 5
POLICIES = {"native": (None, None), "priority": ("--priority 200 --policy priority", "--priority 0"),
            **{name: (f"--policy {name}", f"--policy {name}") for name in ("fair", "adaptive", "mlfq", "rr")}}


class Tenant:
    """A tenant whose lines are read as they come."""

    def __init__(self, bench, options, mode, secs):
        self.begun = time.monotonic()
        self.process = bench.start(options, [sys.executable, os.path.join(HERE, "torch_tenant.py"), mode, "--secs", str(secs)])
        self.rows, self.ready = [], threading.Event()
        self.ready_s = None
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.process.stdout:
            if not line.startswith("{"):
                continue
            row = json.loads(line)
            if "ready" in row:
                self.ready_s = row["ready"]
                self.ready.set()
            self.rows = row.get("steps", self.rows)
        self.ready.set()

    def finish(self):
        error = self.process.stderr.read()
        self.process.wait()
        self.reader.join()
        if not self.rows:
            print(f"# {self.process.args[-6:]}: exit {self.process.returncode}: {error[-300:]}", flush=True)
        return self.rows


def figures(rows, begin, end):
    ms = sorted(1000 * step for at, step in rows if begin <= at < end)
    if not ms:
        return None
    return {"p50": ms[len(ms) // 2], "p99": ms[int(len(ms) * .99)], "max": ms[-1], "rate": 10 * len(ms) / (end - begin)}


def measure(bench, policy):
    mine, theirs = POLICIES[policy]
    decode = Tenant(bench, mine, "decode", ALONE_S + 12 + BOTH_S)
    decode.ready.wait()
    time.sleep(ALONE_S)
    matmul = Tenant(bench, theirs, "matmul", BOTH_S)
    rows, other = decode.finish(), matmul.finish()
    if not rows or not other:
        return None
    first, last = matmul.ready_s, min(rows[-1][0], other[-1][0])
    return {"alone": figures(rows, matmul.begun - ALONE_S, matmul.begun), "process": figures(rows, matmul.begun, matmul.begun + WINDOW_S),
            "start": figures(rows, first - .05, first - .05 + WINDOW_S), "both": figures(rows, first + 2, last),
            "other": figures(other, first + 2, last), "steps": rows, "began": [matmul.begun, first]}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--policies", default="native,priority,fair,adaptive,mlfq")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json")
    parser.set_defaults(quick=False)
    args = parser.parse_args()
    bench = Bench(args)
    results = {}
    print(f"{'policy':9} {'when':8} {'p50 ms':>8} {'p99':>8} {'max':>8} {'steps/s':>8} {'p99/alone':>10}  neighbour steps/s", flush=True)
    for _ in range(args.rounds):
        for policy in args.policies.split(","):
            row = measure(bench, policy)
            if not row:
                continue
            results.setdefault(policy, []).append(row)
            for when in ("alone", "process", "start", "both"):
                if row[when]:
                    f = row[when]
                    print(f"{policy:9} {when:8} {f['p50']:8.3f} {f['p99']:8.3f} {f['max']:8.3f} {f['rate']:8.0f} {f['p99'] / row['alone']['p99']:10.3f}"
                          + (f"  {row['other']['rate']:.0f}" if when == "both" else ""), flush=True)
    missed = False
    for policy, rows in results.items():
        ratio = statistics.median(r["start"]["p99"] / r["alone"]["p99"] for r in rows)
        p99 = statistics.median(r["start"]["p99"] for r in rows)
        bar = {"priority": ratio <= 1.1, "fair": p99 <= .75}.get(policy)
        missed |= bar is False
        print(f"{policy:9} from the start on: p99 {p99:.3f} ms, {ratio:.3f} x alone {'' if bar is None else 'ok' if bar else 'MISS'}", flush=True)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(results, file)
    sys.exit(missed)


if __name__ == "__main__":
    main()
