#!/usr/bin/env python3
"""The tail of cuLaunchKernel with a memory limit, beside the bare driver, which runs twice in each round: a table, and medians of the rounds' ratios.

usage: tails.py [--vgpu PATH] [--rounds N] [--count N] [--cpu N] [--options "--mem 16G"] [--mock BUILD]

The ratio of the second bare run to the first says what the machine alone does to the figures. --cpu: the launching program runs on this processor alone.
Compiles launches.c beside it with cc. --mock: a rehearsal on simgpu of that build; its figures mean nothing.
Exit status 1 where a median ratio misses its bar.
"""
import argparse
import statistics
import sys

from common import Bench, compile_tool

BARS = (("p50_us", None), ("p99_us", 1.05), ("p999_us", 1.10), ("mean_us", None))
# Each of bare, limited and bare again comes first, second and last as often as the others.
ORDERS = ((0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1), (1, 2, 0), (2, 0, 1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--count", type=int, default=60000)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--options", default="--mem 16G")
    parser.add_argument("--mock", metavar="BUILD")
    parser.set_defaults(quick=False)
    args = parser.parse_args()
    bench = Bench(args)
    bench.use_mock(args.mock)
    program = [compile_tool("launches.c"), "tails", str(args.count)]
    if args.cpu is not None:
        program = ["taskset", "-c", str(args.cpu), *program]
    rows = []
    for i in range(args.rounds):
        row = [None, None, None]
        for which in ORDERS[i % len(ORDERS)]:
            row[which] = bench.one(args.options if which == 1 else None, program)
        if all(row):
            rows.append(row)
    if not rows:
        sys.exit("tails: no round has figures")
    print(f"{'round':>5} " + " ".join(f"{field + ' bare':>13} {'vgpu':>8} {'bare':>8}" for field, _ in BARS))
    for i, (first, limited, again) in enumerate(rows):
        print(f"{i + 1:5} " + " ".join(f"{first[field]:13.3f} {limited[field]:8.3f} {again[field]:8.3f}" for field, _ in BARS))
    missed = False
    for field, bar in BARS:
        ratio = statistics.median(limited[field] / bare[field] for first, limited, again in rows for bare in (first, again))
        control = statistics.median(again[field] / first[field] for first, _, again in rows)
        over = bar is not None and ratio > bar
        missed |= over
        print(f"median ratio of {len(rows)} rounds, {field:8} {ratio:7.3f}   bare to bare {control:7.3f}   "
              f"{'' if bar is None else f'<= {bar:.2f}'} {'MISS' if over else ''}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
