#!/usr/bin/env python3
"""Two jobs that each run on the same two cards, by NCCL: bare and in turns, in pairs.

usage: ranks.py [--vgpu PATH] [--rounds N] [--secs S]

A step is five products of 4096 x 4096 in bf16 and an all-reduce of 64 MiB, waited for. Bar: the sum of both jobs' steps a second is no
less than bare in the median of the pairs, and no step takes longer than 15 ms. Needs two cards and PyTorch.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

from common import Bench

WARM_S = 3


def rank(index, meeting, secs):
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(index)
    dist.init_process_group("nccl", init_method=f"file://{meeting}", rank=index, world_size=2)
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    b, shared = torch.randn_like(a), torch.ones(16 << 20, device="cuda")
    ends, on = [], torch.ones(1, device="cuda")
    begin = time.monotonic()
    while True:
        for _ in range(5):
            torch.matmul(a, b)
        dist.all_reduce(shared)
        torch.cuda.synchronize()
        ends.append(time.monotonic())
        if len(ends) % 50 == 0:  # both end with the same step
            on.fill_(float(ends[-1] - begin < secs))
            dist.all_reduce(on, op=dist.ReduceOp.MIN)
            if on.item() == 0:
                break
    print(json.dumps({"ends": ends}), flush=True)
    dist.destroy_process_group()


def start(bench, options, secs):
    meeting = tempfile.mktemp(prefix="vgpu-meeting.")
    script = os.path.abspath(__file__)
    ranks = f"{sys.executable} {script} --rank 0 --meeting {meeting} --secs {secs} & {sys.executable} {script} --rank 1 --meeting {meeting} --secs {secs} >/dev/null; wait"
    return bench.start(options, ["sh", "-c", ranks], env={"NCCL_NVLS_ENABLE": "0"})


def measure(bench, options, jobs, secs):
    runs = [bench.finish(p) for p in [start(bench, options, secs) for _ in range(jobs)]]
    if not all(runs):
        return None
    begin, end = max(r["ends"][0] for r in runs) + WARM_S, min(r["ends"][-1] for r in runs)
    rates, longest = [], 0
    for run in runs:
        inside = [e for e in run["ends"] if begin <= e <= end]
        rates.append(len(inside) / (end - begin))
        longest = max([longest] + [1000 * (b - a) for a, b in zip(inside, inside[1:])])
    return {"rates": rates, "sum": sum(rates), "longest_ms": longest, "secs": end - begin}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--secs", type=float, default=10)
    parser.add_argument("--options", default="--weight 100")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--meeting")
    parser.set_defaults(quick=False)
    args = parser.parse_args()
    if args.rank is not None:
        rank(args.rank, args.meeting, args.secs)
        return
    bench = Bench(args)
    print(f"{'jobs':>4} {'how':6} {'steps/s':>20} {'sum':>7} {'longest ms':>10}", flush=True)
    pairs = []
    for jobs, rounds in ((1, 1), (2, args.rounds)):
        for i in range(rounds):
            row = {}
            for how in ("bare", "vgpu") if i % 2 == 0 else ("vgpu", "bare"):
                row[how] = r = measure(bench, None if how == "bare" else args.options, jobs, args.secs)
                if r:
                    print(f"{jobs:4} {how:6} {' + '.join(f'{x:.0f}' for x in r['rates']):>20} {r['sum']:7.0f} {r['longest_ms']:10.1f}", flush=True)
            if jobs == 2 and row.get("bare") and row.get("vgpu"):
                pairs.append(row)
    if not pairs:
        sys.exit("ranks: no pair has figures")
    ratio = statistics.median(p["vgpu"]["sum"] / p["bare"]["sum"] for p in pairs)
    longest = max(p["vgpu"]["longest_ms"] for p in pairs)
    print(f"two jobs: median ratio {ratio:.3f} (>= 1), longest step {longest:.1f} ms (<= 15) {'ok' if ratio >= 1 and longest <= 15 else 'MISS'}")
    sys.exit(ratio < 1 or longest > 15)


if __name__ == "__main__":
    main()
