#!/usr/bin/env python3
"""The driver API under a quota. usage: vgpu run --mem 8G -- python3 driver_modes.py MODE QUOTA_MIB

Every mode prints one line, "ok      driver MODE: ..." or "FAILED  driver MODE: why", and exits 0 or 1. On a card each
shows what only the real driver can: that it agrees with what the simulator assumes.
"""
import ctypes
import os
import signal
import socket
import subprocess
import sys

MIB = 1 << 20
OUT_OF_MEMORY = 2
NOT_SUPPORTED = 801


class Skip(Exception):
    pass


def check(condition, why):
    if not condition:
        raise AssertionError(why)


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class AllocationProp(ctypes.Structure):
    """CUmemAllocationProp"""
    _fields_ = [("type", ctypes.c_int), ("handle_types", ctypes.c_int), ("location", Location),
                ("win32", ctypes.c_void_p), ("flags", ctypes.c_ubyte * 32)]


class IpcHandle(ctypes.Structure):
    _fields_ = [("reserved", ctypes.c_ubyte * 64)]


PINNED, ON_DEVICE, FILE_DESCRIPTOR = 1, 1, 1


class Driver:
    def __init__(self):
        self.cu = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self.ok("cuInit", 0)
        self.ok("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.ok("cuCtxSetCurrent", context)

    def call(self, name, *args):
        return getattr(self.cu, name)(*args)

    def ok(self, name, *args):
        result = self.call(name, *args)
        check(result == 0, f"{name} returned {result}")

    def free_bytes(self):
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.ok("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def try_alloc(self, size):
        address = ctypes.c_uint64()
        return self.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size)), address

    def alloc(self, size):
        result, address = self.try_alloc(size)
        check(result == 0, f"cuMemAlloc of {size // MIB} MiB returned {result}")
        return address

    def free(self, address):
        self.ok("cuMemFree_v2", address)

    def create(self, size):
        prop = AllocationProp(type=PINNED, handle_types=FILE_DESCRIPTOR, location=Location(ON_DEVICE, 0))
        handle = ctypes.c_uint64()
        self.ok("cuMemCreate", ctypes.byref(handle), ctypes.c_size_t(size), ctypes.byref(prop), ctypes.c_ulonglong(0))
        return handle

    def export(self, handle):
        fd = ctypes.c_int()
        self.ok("cuMemExportToShareableHandle", ctypes.byref(fd), handle, FILE_DESCRIPTOR, ctypes.c_ulonglong(0))
        return fd.value

    def import_fd(self, fd):
        handle = ctypes.c_uint64()
        self.ok("cuMemImportFromShareableHandle", ctypes.byref(handle), ctypes.c_void_p(fd), FILE_DESCRIPTOR)
        return handle


class Child:
    """This script again, in another process, which answers a line with a line. It shares the instance."""

    def __init__(self, role, *args, command=()):
        self.here, there = socket.socketpair()
        self.process = subprocess.Popen([*command, sys.executable, __file__, role, *map(str, args), str(there.fileno())],
                                        pass_fds=[there.fileno()])
        there.close()
        self.file = self.here.makefile("rw")
        self.wait()

    def wait(self):
        line = self.file.readline().strip()
        check(line, f"a child ended with status {self.process.poll()}")
        return line

    def ask(self, line):
        self.file.write(line + "\n")
        self.file.flush()
        return self.wait()

    def end(self):
        self.file.close()
        self.here.close()
        self.process.wait()

    def kill(self):
        self.process.send_signal(signal.SIGKILL)


def stat(pid):
    """State, whether it is exiting (PF_EXITING), and threads of a process that nobody has waited for; see proc(5)."""
    with open(f"/proc/{pid}/stat", errors="replace") as file:
        fields = file.read().rpartition(")")[2].split()
    return fields[0], bool(int(fields[6]) & 4), int(fields[17])


def wait_for_exit(pid):
    while not stat(pid)[1]:
        pass


def has_ended(pid):
    state, _, threads = stat(pid)
    return state == "Z" and threads == 1


def serve(fd, answer):
    connection = socket.socket(fileno=fd)
    file = connection.makefile("rw")
    print("ready", file=file, flush=True)
    for line in file:
        print(answer(line.strip()), file=file, flush=True)


def role_hold(size, fd):
    """Holds memory and says whether it is intact."""
    driver = Driver()
    driver.alloc(int(size) - MIB)
    small = driver.alloc(MIB)
    driver.ok("cuMemsetD8_v2", small, ctypes.c_ubyte(0x5a), ctypes.c_size_t(MIB))
    driver.ok("cuCtxSynchronize")

    def answer(_):
        byte = ctypes.c_ubyte()
        driver.ok("cuMemcpyDtoH_v2", ctypes.byref(byte), ctypes.c_uint64(small.value + MIB - 1), ctypes.c_size_t(1))
        return "intact" if byte.value == 0x5a else "damaged"

    serve(int(fd), answer)


def role_maker(size, fd):
    """Makes memory, and gives its handle as text."""
    driver = Driver()
    memory = driver.alloc(int(size))
    handle = IpcHandle()

    def answer(_):
        driver.ok("cuIpcGetMemHandle", ctypes.byref(handle), memory)
        return bytes(handle.reserved).hex()

    serve(int(fd), answer)


def role_quota(fd):
    driver = Driver()
    free, total = ctypes.c_size_t(), ctypes.c_size_t()

    def answer(_):
        driver.ok("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return str(total.value // MIB)

    serve(int(fd), answer)


def mode_checkpoint(quota):
    if not hasattr(ctypes.CDLL("libcuda.so.1"), "cuCheckpointProcessCheckpoint"):
        raise Skip("this driver has no cuCheckpointProcessCheckpoint")
    half = quota // 2
    child = Child("hold", half)
    driver = Driver()
    pid = child.process.pid
    driver.ok("cuCheckpointProcessLock", pid, None)
    result = driver.call("cuCheckpointProcessCheckpoint", pid, None)
    if result == NOT_SUPPORTED:
        raise Skip("the driver does not checkpoint here")
    check(result == 0, f"cuCheckpointProcessCheckpoint returned {result}")
    away = driver.free_bytes()
    check(away > half, f"{away // MIB} MiB are free while {half // MIB} MiB are away")
    memory = driver.alloc(away - 256 * MIB)
    result = driver.call("cuCheckpointProcessRestore", pid, None)
    check(result == OUT_OF_MEMORY, f"a restore that does not fit returned {result}")
    driver.free(memory)
    driver.ok("cuCheckpointProcessRestore", pid, None)
    driver.ok("cuCheckpointProcessUnlock", pid, None)
    check(child.ask("look") == "intact", "the memory is not what it was")
    back = driver.free_bytes()
    check(back < half, f"{back // MIB} MiB are free after the restore")
    child.end()
    return f"{away // MIB} MiB free while away, restore refused, then done, {back // MIB} MiB free"


def mode_exported(quota):
    driver = Driver()
    size = quota // 4
    before = driver.free_bytes()
    handle = driver.create(size)
    fd = driver.export(handle)
    driver.ok("cuMemRelease", handle)
    kept = before - driver.free_bytes()
    check(kept == size, f"{kept // MIB} MiB are charged while a descriptor keeps {size // MIB} MiB")
    again = driver.import_fd(fd)
    twice = before - driver.free_bytes()
    check(twice == size, f"{twice // MIB} MiB are charged for {size // MIB} MiB that were imported again")
    os.close(fd)
    driver.ok("cuMemRelease", again)
    driver.alloc(before - 64 * MIB)
    return f"{kept // MIB} MiB stay charged by a descriptor, once, and are free after it"


def mode_ipc(quota):
    size = quota // 4
    child = Child("maker", size)
    driver = Driver()
    before = driver.free_bytes()
    handle = IpcHandle.from_buffer_copy(bytes.fromhex(child.ask("handle")))
    address = ctypes.c_uint64()
    driver.ok("cuIpcOpenMemHandle_v2", ctypes.byref(address), handle, 1)
    opened = before - driver.free_bytes()
    check(opened == 0, f"{opened // MIB} MiB more are charged for memory of the same instance")
    child.kill()
    child.process.wait()
    kept = quota - driver.free_bytes()
    check(kept >= size, f"{kept // MIB} MiB are charged after its maker's death")
    driver.ok("cuIpcCloseMemHandle", address)
    left = quota - driver.free_bytes()
    check(left < size, f"{left // MIB} MiB are charged after the handle was closed")
    return f"{size // MIB} MiB charged once, also after the maker's death, and no more once closed"


def mode_nested(quota):
    vgpu = os.environ["VGPU"]
    driver = Driver()
    wide = Child("quota", command=[vgpu, "run", "--mem", f"{2 * quota // MIB}M", "--"])
    check(int(wide.ask("total")) == quota // MIB, f"a wider run inside sees {wide.ask('total')} MiB")
    wide.end()
    half = Child("quota", command=[vgpu, "run", "--mem", "50%", "--"])
    shown = int(half.ask("total"))
    check(shown == quota // MIB // 2, f"half of the quota is {shown} MiB")
    half.end()
    inner = Child("hold", quota // 4, command=[vgpu, "run", "--mem", f"{quota // 2 // MIB}M", "--"])
    free = driver.free_bytes()
    check(free < quota - quota // 4, f"{free // MIB} MiB are free outside of a run that holds {quota // 4 // MIB} MiB")
    inner.end()
    return f"{quota // MIB} and {shown} MiB inside, and what a run inside holds counts outside"


def mode_killed(quota):
    """Who was killed a moment ago and is not waited for: its memory is on the card until the driver has freed it."""
    driver = Driver()
    size = driver.free_bytes() - 1024 * MIB
    for round in range(5):
        child = Child("hold", size)
        child.kill()
        wait_for_exit(child.process.pid)
        # On a slow machine it may take longer than an allocation waits for it.
        result = OUT_OF_MEMORY
        while result == OUT_OF_MEMORY:
            ended = has_ended(child.process.pid)
            result, address = driver.try_alloc(size)
            if ended:
                break
        check(result == 0, f"round {round}: cuMemAlloc returned {result}")
        driver.free(address)
        child.process.wait()
    return f"5 times {size // MIB} MiB at once after kill -9"


def main():
    mode, *args = sys.argv[1:]
    if "role_" + mode in globals():
        globals()["role_" + mode](*args)
        return 0
    try:
        print(f"ok      driver {mode}: {globals()['mode_' + mode](int(args[0]) * MIB)}")
    except Skip as why:
        print(f"skipped driver {mode}: {why}")
    except AssertionError as why:
        print(f"FAILED  driver {mode}: {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
