#!/usr/bin/env python3
"""Kernels that were never seen before, under a cap: the most device time in any 100 ms from the first launch on.

usage: capstart.py [--vgpu PATH] [--cores P,...] [--us N,...] [--rounds N] [--mock BUILD]

Each figure is of a process of its own. `fresh` is another kernel at each launch, `same` one again and again, `graph` another graph, `update` one
that is changed before each launch from the eleventh on a hundred times as long as before; none waits. The bar is cap x 100 ms + 5 ms + one kernel. `first` is what the kernels took from the first one's begin to the last one's end, beside what the cap
implies. Compiles launches.c beside it with cc. --mock: a rehearsal on simgpu of that build; its times of waiting mean nothing.
Exit status 1 where a window misses the bar.
"""
import argparse
import sys

from common import Bench, compile_tool

WINDOW_MS, SLACK_MS = 100, 5
SHORT = 10  # of launches.c's updates


def most_in_a_window(times, window_ns):
    """Of spans in order: the window that has most ends with one of them; of the first in it, it may have a part only."""
    most = total = first = 0
    for begin, end in times:
        total += end - begin
        while times[first][1] <= end - window_ns:
            total -= times[first][1] - times[first][0]
            first += 1
        outside = max(0, end - window_ns - times[first][0])
        most = max(most, total - outside)
    return most


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--cores", default="25,60")
    parser.add_argument("--us", default="10,100,1000,5000,20000,50000,100000")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--mock", metavar="BUILD")
    parser.set_defaults(quick=False)
    args = parser.parse_args()
    bench = Bench(args)
    bench.use_mock(args.mock)
    tool = compile_tool("launches.c")
    missed = False
    print(f"{'cap':>4} {'kernel us':>10} {'which':6} {'count':>6} {'in 100 ms':>10} {'bar':>7} {'first':>9} {'implied':>8} {'silence':>8} ms")
    for _ in range(args.rounds):
        for cores in (int(c) for c in args.cores.split(",")):
            for us in (float(u) for u in args.us.split(",")):
                for which in ("same", "fresh", "graph", "update"):
                    count = int(min(2000, max(4, 100000 / us))) + (SHORT if which == "update" else 0)
                    words = [tool, which, str(us), str(count)] + (["events"] if args.mock else [])
                    row = bench.one(f"--cores {cores}", words)
                    if not row:
                        print(f"{cores:3}% {us:10.0f} {which:6} failed")
                        missed = True
                        continue
                    times = sorted(row["times"])
                    length_ms = max(end - begin for begin, end in times) / 1e6
                    most = most_in_a_window(times, WINDOW_MS * 1e6) / 1e6
                    bar = cores / 100 * WINDOW_MS + SLACK_MS + length_ms
                    took = (times[-1][1] - times[0][0]) / 1e6
                    silence = max((b[0] - a[1] for a, b in zip(times, times[1:])), default=0) / 1e6
                    over = most > bar
                    missed |= over
                    implied = sum(end - begin for begin, end in times[:-1]) / 1e6 / (cores / 100) + length_ms
                    print(f"{cores:3}% {us:10.0f} {which:6} {count:6} {most:10.2f} {bar:7.2f} {took:9.2f} {implied:8.2f} {silence:8.2f} {'MISS' if over else ''}", flush=True)
    sys.exit(missed)


if __name__ == "__main__":
    main()
