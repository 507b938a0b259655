#!/usr/bin/env python3
"""PyTorch under a quota on a real card. usage: vgpu run --mem 8G -- python3 torch_modes.py MODE QUOTA_MIB

Every mode prints one line, "ok MODE ..." or "FAILED MODE: why", and exits 0 or 1. The allocator's back end is chosen
by PYTORCH_CUDA_ALLOC_CONF, outside.
"""
import os
import subprocess
import sys
import time

import torch

MIB = 1 << 20


def check(condition, why):
    if not condition:
        raise AssertionError(why)


def fill(step_mib=64):
    """Allocates until PyTorch says out of memory; returns the tensors and the message.

    Not the exception: its traceback would keep this frame, and with it the tensors, alive.
    """
    held = []
    try:
        for _ in range(100000):
            held.append(torch.empty(step_mib * MIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        return held, str(error)
    raise AssertionError("never ran out of memory")


def mode_oom(quota):
    free, total = torch.cuda.mem_get_info()
    check(total == quota * MIB, f"mem_get_info total {total / MIB} MiB")
    check(torch.cuda.get_device_properties(0).total_memory == quota * MIB, "device properties disagree")
    held, error = fill()
    got = len(held) * 64
    check(got * MIB <= free and got * MIB >= free * 0.97 - 64 * MIB, f"{got} MiB of {free / MIB:.0f} MiB free")
    del held
    torch.cuda.empty_cache()
    again = torch.empty(free // 2, dtype=torch.uint8, device="cuda")
    del again
    return f"{got} MiB of {free // MIB} free, then: {error.splitlines()[0][:70]}"


def mode_graphs(quota):
    x = torch.randn(512, 512, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            y = torch.relu(x @ x).sum(dim=1)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = torch.relu(x @ x).sum(dim=1)
    for i in range(20):
        x.copy_(torch.randn(512, 512, device="cuda"))
        graph.replay()
    torch.cuda.synchronize()
    check(torch.allclose(y, torch.relu(x @ x).sum(dim=1), rtol=1e-3), "replay gives another result")
    held, _ = fill()
    check(held, "nothing could be allocated beside the graph")
    return f"replayed 20 times, {len(held) * 64} MiB beside it"


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, i):
        return torch.full((64,), float(i)), float(i % 7)


def mode_workers(quota):
    model = torch.nn.Linear(64, 1).cuda()
    optimiser = torch.optim.SGD(model.parameters(), lr=1e-6)
    seen = 0
    for _ in range(2):
        for x, y in torch.utils.data.DataLoader(Samples(), batch_size=16, num_workers=2, pin_memory=True):
            loss = (model(x.cuda(non_blocking=True)).squeeze(1) - y.float().cuda()).square().mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            seen += len(x)
    check(seen == 512, f"{seen} samples")
    return "2 epochs with 2 forked workers and pinned memory"


def rank_main(rank, quota, port, queue):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    t = torch.full((1024,), float(rank + 1), device="cuda")
    cpu = t.cpu()
    torch.distributed.all_reduce(cpu)
    torch.distributed.barrier()
    held, _ = fill(32)
    torch.distributed.barrier()
    free, total = torch.cuda.mem_get_info()
    queue.put((rank, float(cpu[0]), len(held) * 32, free, total))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def mode_ranks(quota):
    context = torch.multiprocessing.get_context("spawn")
    queue = context.Queue()
    ranks = [context.Process(target=rank_main, args=(r, quota, 29517, queue)) for r in range(2)]
    for rank in ranks:
        rank.start()
    results = [queue.get(timeout=120) for _ in ranks]
    for rank in ranks:
        rank.join(60)
        check(rank.exitcode == 0, f"a rank ended with {rank.exitcode}")
    check(all(r[1] == 3.0 for r in results), "all_reduce gave another sum")
    check(all(r[4] == quota * MIB for r in results), "total is not the quota")
    both = sum(r[2] for r in results)
    check(both < quota, f"together {both} MiB of a quota of {quota}")
    return f"sum right; {results[0][2]} + {results[1][2]} MiB of {quota} (two contexts beside them)"


def mode_smi(quota):
    torch.zeros(1, device="cuda")
    line = subprocess.run(["nvidia-smi", "--query-gpu=memory.total,memory.used", "--format=csv,noheader,nounits"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    total, used = (int(v) for v in line.split(","))
    check(total == quota, f"nvidia-smi shows a total of {total} MiB")
    check(0 < used <= quota, f"nvidia-smi shows {used} MiB used")
    return f"nvidia-smi: {used} of {total} MiB"


def mode_busy(quota):
    """Until it is killed, or for a minute."""
    x = torch.randn(4096, 4096, device="cuda")
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for _ in range(20):
            x @ x
        torch.cuda.synchronize()
    return "for a minute"


def main():
    mode, quota = sys.argv[1], int(sys.argv[2])
    try:
        print(f"ok      torch {mode}: {globals()['mode_' + mode](quota)}", flush=True)
    except Exception as error:  # one line per mode, whatever went wrong
        print(f"FAILED  torch {mode}: {type(error).__name__}: {error}", flush=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
