"""PyCUDA in an instance of 1 GiB and 30 % of the device's time: pycuda_quota.py SIMCTL."""
import os
import re
import subprocess
import sys
import time

import numpy
import pycuda.driver as cuda
import pycuda.tools

QUOTA, STEP, CAP = 1 << 30, 64 << 20, 0.30
KERNELS, KERNEL_NS = 300, 2_000_000
SLACK_S = 0.1  # what a cap lets through at once, with what is in the queue when it is looked at


def busy_s():
    ledger = subprocess.run([sys.argv[1], "ledger"], capture_output=True, text=True, check=True).stdout
    return sum(int(busy) for busy in re.findall(rf"^process {os.getpid()} .*busy_ns=(\d+)", ledger, re.M)) / 1e9


def memory():
    assert cuda.mem_get_info()[1] == QUOTA, cuda.mem_get_info()
    free, held = cuda.mem_get_info()[0], []
    try:
        while True:
            held.append(cuda.mem_alloc(STEP))
    except cuda.MemoryError:
        pass
    assert held and free - len(held) * STEP < STEP, (free, len(held))
    assert cuda.mem_get_info()[0] == free - len(held) * STEP
    for block in held:
        block.free()
    assert cuda.mem_get_info()[0] == free

    pool = pycuda.tools.DeviceMemoryPool()
    block = pool.allocate(STEP)
    assert cuda.mem_get_info()[0] <= free - STEP
    del block
    pool.free_held()
    assert cuda.mem_get_info()[0] == free


def contents(stream):
    sent = numpy.arange(1 << 20, dtype=numpy.int32)
    managed = cuda.managed_empty(sent.size, numpy.int32, mem_flags=cuda.mem_attach_flags.GLOBAL)
    device, back = cuda.mem_alloc(sent.nbytes), numpy.empty_like(sent)
    cuda.memcpy_htod_async(device, sent, stream)
    cuda.memcpy_dtoh_async(back, device, stream)
    stream.synchronize()
    assert (back == sent).all()
    managed[:] = sent
    assert (managed == sent).all()


def kernels(stream):
    function = cuda.module_from_buffer(b"simgpu").get_function("simgpu_busy").prepare("Q")
    first, last = cuda.Event(), cuda.Event()
    before, start = busy_s(), time.monotonic()
    first.record(stream)
    for _ in range(KERNELS):
        function.prepared_async_call((1, 1), (1, 1, 1), stream, KERNEL_NS)
    last.record(stream)
    last.synchronize()
    took, busy = time.monotonic() - start, busy_s() - before
    assert abs(busy - KERNELS * KERNEL_NS / 1e9) < 0.001, busy
    assert busy <= CAP * took + SLACK_S, (busy, took)
    assert first.time_till(last) <= took * 1e3 + 1


cuda.init()
context = cuda.Device(0).make_context()
try:
    memory()
    contents(cuda.Stream())
    kernels(cuda.Stream())
finally:
    context.pop()
