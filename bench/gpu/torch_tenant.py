#!/usr/bin/env python3
"""A tenant's PyTorch. One line of JSON each.

torch_tenant.py oom --mib N               allocates blocks until it is refused; then frees, allocates again and computes
torch_tenant.py train --secs N --every N  trains with a fixed seed; after every N steps the loss and a sum over all bits of the weights
torch_tenant.py {decode|matmul} --secs N  a CUDA graph of a small decoder, or matrix products; waits after every tenth step. When each ten ended
                                          and what a step of it took, in seconds of CLOCK_MONOTONIC
"""
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
from torch import nn


def say(**fields):
    print(json.dumps(fields), flush=True)


def oom(block_mib):
    blocks, error, text = [], None, ""
    device = torch.device("cuda")
    torch.zeros(1, device=device)
    try:
        while len(blocks) < 100000:
            blocks.append(torch.empty(block_mib << 20, dtype=torch.uint8, device=device))
    except Exception as caught:
        error, text = type(caught).__name__, str(caught)
    free, total = torch.cuda.mem_get_info()
    say(mode="oom", error=error, got_mib=len(blocks) * block_mib, free_mib=free >> 20, total_mib=total >> 20, text=text[:300])
    blocks.clear()
    torch.cuda.empty_cache()
    again = torch.empty(block_mib << 20, dtype=torch.uint8, device=device)
    a, b = torch.randn(512, 512, device=device, dtype=torch.float64), torch.randn(512, 512, device=device, dtype=torch.float64)
    right = torch.allclose((a @ b).cpu(), a.cpu() @ b.cpu())
    say(mode="oom", again=again.numel() == block_mib << 20, right=bool(right))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.first(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-1, -2) * (width // self.heads) ** -.5).softmax(-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.second(x))


def checksum(model):
    """Over integers, so that the order of the additions does not matter."""
    total = torch.zeros((), dtype=torch.int64, device="cuda")
    for p in model.parameters():
        bits = p.detach().reshape(-1).view(torch.int32).to(torch.int64)
        total += (bits * (torch.arange(bits.numel(), device="cuda") % 65521 + 1)).sum()
    return f"{total.item() & (1 << 64) - 1:016x}"


def train(secs, every):
    torch.manual_seed(7)
    torch.use_deterministic_algorithms(True)
    device = torch.device("cuda")
    model = nn.Sequential(*[Block(1024, 16) for _ in range(8)]).to(device)
    teacher = torch.randn(1024, 1024, device=device) * 1024 ** -.5
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    source = torch.Generator(device=device).manual_seed(11)
    begin, step = time.monotonic(), 0
    while time.monotonic() - begin < secs:
        x = torch.randn(64, 256, 1024, device=device, generator=source)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = (model(x) - (x @ teacher).tanh()).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % every == 0:
            say(step=step, loss=loss.item(), hash=checksum(model))
    torch.cuda.synchronize()
    say(mode="train", steps=step, secs=round(time.monotonic() - begin, 2))


def decode_step():
    layer = nn.TransformerEncoderLayer(1024, 8, 4096, batch_first=True)
    model = nn.TransformerEncoder(layer, 8).cuda().half().eval()
    x = torch.randn(1, 16, 1024, device="cuda", dtype=torch.half)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.no_grad(), torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.no_grad(), torch.cuda.graph(graph):
        model(x)
    return graph.replay


def matmul_step():
    a = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    b = torch.randn_like(a)
    return lambda: torch.matmul(a, b)


def steps(mode, secs):
    step = decode_step() if mode == "decode" else matmul_step()
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    say(mode=mode, ready=time.monotonic())
    rows, until = [], time.monotonic() + secs
    while time.monotonic() < until:
        begin = time.monotonic()
        for _ in range(10):
            step()
        torch.cuda.synchronize()
        end = time.monotonic()
        rows.append((round(end, 6), round((end - begin) / 10, 7)))
    say(mode=mode, steps=rows)


def argument(name, otherwise):
    return float(sys.argv[sys.argv.index(name) + 1]) if name in sys.argv else otherwise


if __name__ == "__main__":
    if sys.argv[1] == "oom":
        oom(int(argument("--mib", 64)))
    elif sys.argv[1] in ("decode", "matmul"):
        steps(sys.argv[1], argument("--secs", 10))
    else:
        train(argument("--secs", 10), int(argument("--every", 20)))
