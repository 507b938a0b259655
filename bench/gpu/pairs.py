#!/usr/bin/env python3
"""Runs a command that prints JSON lines bare and under `vgpu run`, in turn, and prints the ratio of each numeric field.

usage: pairs.py [--pairs N] [--vgpu PATH] [--run-args "--mem 4G"] [--fields a,b,...] -- COMMAND...
The order within a pair alternates, so that a drifting machine favours neither. Figures are medians over the pairs.
"""
import argparse
import json
import shlex
import statistics
import subprocess
import sys


def run(command):
    out = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
    row = {}
    for line in out.stdout.splitlines():
        if line.startswith("{"):
            row.update({k: v for k, v in json.loads(line).items() if isinstance(v, (int, float))})
    if out.returncode != 0 or not row:
        sys.exit(f"{shlex.join(command)}: exit {out.returncode}, no figures\n{out.stdout[-2000:]}")
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--run-args", default="--mem 16G")
    parser.add_argument("--fields", default="")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    wrapped = [args.vgpu, "run", *shlex.split(args.run_args), "--", *command]

    bare_rows, vgpu_rows = [], []
    for i in range(args.pairs):
        for which in (0, 1) if i % 2 == 0 else (1, 0):
            (bare_rows if which == 0 else vgpu_rows).append(run(command if which == 0 else wrapped))

    fields = [f for f in args.fields.split(",") if f] or sorted(bare_rows[0])
    print(f"{'field':22} {'bare':>12} {'vgpu':>12} {'difference':>12} {'ratio':>8}   pairs")
    for field in fields:
        bare = statistics.median(r[field] for r in bare_rows)
        vgpu = statistics.median(r[field] for r in vgpu_rows)
        ratio = f"{vgpu / bare:.4f}" if bare else "-"
        pairs = " ".join(f"{a[field]:g}/{b[field]:g}" for a, b in zip(bare_rows, vgpu_rows))
        print(f"{field:22} {bare:12.4f} {vgpu:12.4f} {vgpu - bare:+12.4f} {ratio:>8}   {pairs}")


if __name__ == "__main__":
    main()
