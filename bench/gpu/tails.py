#!/usr/bin/env python3
"""The tail of cuLaunchKernel with a memory limit, in pairs with the bare driver: a table, and the median of the pairs' ratios.

usage: tails.py [--vgpu PATH] [--pairs N] [--count N] [--cpu N] [--options "--mem 16G"] [--mock BUILD]

--cpu: the launching program runs on this processor alone, bare and limited alike. Compiles launches.c beside it with cc. --mock: a rehearsal on simgpu of that build; its figures mean nothing.
Exit status 1 where a median ratio misses its bar.
"""
import argparse
import statistics
import sys

from common import Bench, compile_tool, paired

BARS = (("p50_us", None), ("p99_us", 1.05), ("p999_us", 1.10), ("mean_us", None))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--pairs", type=int, default=11)
    parser.add_argument("--count", type=int, default=100000)
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
    bare, limited = paired(args.pairs, lambda: bench.one(None, program), lambda: bench.one(args.options, program))
    rows = [(b, v) for b, v in zip(bare, limited) if b and v]
    if not rows:
        sys.exit("tails: no pair has figures")
    print(f"{'pair':>4} " + " ".join(f"{field + ' bare':>14} {'vgpu':>9}" for field, _ in BARS))
    for i, (b, v) in enumerate(rows):
        print(f"{i + 1:4} " + " ".join(f"{b[field]:14.3f} {v[field]:9.3f}" for field, _ in BARS))
    missed = False
    for field, bar in BARS:
        ratio = statistics.median(v[field] / b[field] for b, v in rows)
        over = bar is not None and ratio > bar
        missed |= over
        print(f"median ratio of {len(rows)} pairs, {field:8} {ratio:7.3f}   {'' if bar is None else f'<= {bar:.2f}'} {'MISS' if over else ''}")
    sys.exit(missed)


if __name__ == "__main__":
    main()
