"""guard.py: the quota, the view, and programs that must go on as they are."""
import ctypes
import json
import os
import platform
import pty
import re
import shlex
import subprocess
import tempfile
import termios
import threading
import time

from common import json_lines

MIB = 1 << 20
QUOTA_MIB = 4096
KINDS = ["malloc", "managed", "async", "pool", "pitch", "array", "array3d", "vmm"]
SIDE_BY_SIDE = 4
AUDITED_S = 2.6  # the audit comes once a second
SYS_WRITE = "64" if platform.machine() == "aarch64" else "1"


class Nvml:
    class Process(ctypes.Structure):
        _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("gi", ctypes.c_uint), ("ci", ctypes.c_uint)]

    def __init__(self):
        self.library = ctypes.CDLL("libnvidia-ml.so.1")
        self.device = ctypes.c_void_p()
        if self.library.nvmlInit_v2() or self.library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)):
            raise OSError("NVML does not start")

    def mib_of(self, pids):
        count, rows = ctypes.c_uint(256), (self.Process * 256)()
        rc = self.library.nvmlDeviceGetComputeRunningProcesses_v3(self.device, ctypes.byref(count), rows)
        if rc:
            raise OSError(f"nvmlDeviceGetComputeRunningProcesses: {rc}")
        return sum(row.used for row in rows[:count.value] if row.pid in pids) / MIB


def descendants(pid):
    parents, found = {}, [pid]
    for name in os.listdir("/proc"):
        try:
            with open(f"/proc/{name}/stat") as file:
                parents[int(name)] = int(file.read().rsplit(")", 1)[1].split()[1])
        except (OSError, ValueError, IndexError):
            continue
    for one in found:
        found += [p for p, parent in parents.items() if parent == one]
    return found[1:]


class Held:
    """A program that stands still where it writes its first line, by a terminal whose output is stopped: until then it has all of its
    memory, and it can be looked at."""

    def __init__(self, bench, options, program):
        self.bench, self.program = bench, program
        self.master, self.slave = pty.openpty()
        mode = termios.tcgetattr(self.slave)
        mode[1] &= ~termios.OPOST
        termios.tcsetattr(self.slave, termios.TCSANOW, mode)
        termios.tcflow(self.slave, termios.TCOOFF)
        self.err = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(["timeout", "60", *bench.command(options, program)], stdin=subprocess.DEVNULL, stdout=self.slave,
                                        stderr=self.err, env=bench.env)

    def _writes(self, pid):
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{thread}/syscall") as file:
                    words = file.read().split()
                if words[:2] == [SYS_WRITE, "0x1"]:
                    return True
        except OSError:
            pass
        return False

    def wait(self, limit_s=45):
        """The number of the process that stands; None: none does."""
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.process.poll() is None:
            for pid in descendants(self.process.pid):
                if self._writes(pid):
                    return pid
            time.sleep(0.05)
        return None

    def release(self):
        """Status, rows, what was written on stderr."""
        out = []

        def read():
            try:
                while data := os.read(self.master, 65536):
                    out.append(data)
            except OSError:
                pass

        reader = threading.Thread(target=read)
        reader.start()
        termios.tcflow(self.slave, termios.TCOON)
        self.process.wait()
        os.close(self.slave)
        reader.join()
        os.close(self.master)
        self.err.seek(0)
        err = self.err.read()
        rows = json_lines(b"".join(out).decode(errors="replace"))
        self.bench.said(self.process, rows, err)
        return self.process.returncode, rows, err


def maps(pid, word):
    """How many bytes of the process's mappings have the word in their line."""
    with open(f"/proc/{pid}/maps") as file:
        spans = [re.match(r"([0-9a-f]+)-([0-9a-f]+)", line) for line in file if word in line]
    return sum(int(m[2], 16) - int(m[1], 16) for m in spans)


def look(bench, nvml, held, name):
    """What is to be seen of a program that is held."""
    pid = held.wait()
    if not pid:
        return None
    ps = subprocess.run([bench.args.vgpu, "ps", "--json"], capture_output=True, text=True, env=bench.env).stdout
    instance = [i for i in json.loads(ps or "{}").get("instances", []) if i["name"] == name]
    return {"pid": pid, "nvml_mib": nvml.mib_of([pid]), "library": maps(pid, "libvgpu") > 0, "uvm_mib": maps(pid, "nvidia-uvm") / MIB,
            "ps_mib": instance[0]["devices"][0]["used_bytes"] / MIB if instance and instance[0]["devices"] else None}


def under(name, more=""):
    return f"--guard=strict --stats --name {name} --mem {QUOTA_MIB}M {more}"


def audit_ok(err):
    found = re.findall(r"audits (\d+), of which differed (\d+)", err)
    return bool(found) and int(found[-1][0]) >= 2 and int(found[-1][1]) == 0, f"{found[-1][0]}/{found[-1][1]}" if found else "none"


def kinds(bench):
    nvml = Nvml()
    for at in range(0, len(KINDS), SIDE_BY_SIDE):
        batch = KINDS[at:at + SIDE_BY_SIDE]
        runs = [Held(bench, under(f"mem-{kind}"), [bench.probe, *(["managed"] if bench.mock and kind == "managed" else ["alloc", kind]), "--mib", "16"])
                for kind in batch]
        for run in runs:
            run.wait()
        time.sleep(AUDITED_S)
        seen = [look(bench, nvml, run, f"mem-{kind}") for run, kind in zip(runs, batch)]
        for kind, run, one in zip(batch, runs, seen):
            status, rows, err = run.release()
            judge(bench, kind, one, status, rows, err)


def judge(bench, kind, seen, status, rows, err):
    if not seen or not rows or "rc" not in rows[0]:
        return bench.bar(kind, f"exit {status}, {rows[-1:]} {err[-80:]}"[:90], "", False)
    row = rows[0]
    # Managed memory is nobody's in NVML's figures: what the program was given counts.
    total = seen["nvml_mib"] + (row["got_mib"] if kind == "managed" else 0)
    audited, audits = audit_ok(err)
    bench.facts.append({"step": bench.step, "text": kind, "data": {**seen, **row}})
    bench.bar(f"{kind}: total by NVML", f"{total:.0f} MiB = {total / QUOTA_MIB:.2%}, got {row['got_mib']}, code {row['rc']}",
              "<= 4096 MiB, >= 99 %, code 2", total <= QUOTA_MIB and total >= .99 * QUOTA_MIB and row["rc"] == 2 and status == 0)
    bench.bar(f"{kind}: libvgpu.so, audits/differences", f"{'LOADED' if seen['library'] else 'not there'}, {audits}", "not there, none",
              not seen["library"] and audited)


def smi_command(bench):
    fields = ["nvidia-smi", "--query-gpu=memory.total,memory.used,memory.free", "--format=csv,noheader,nounits"]
    return ["sh", "-c", "echo 4096, 600, 3496"] if bench.mock else fields


def view(bench):
    row = bench.one(under("view"), bench.run("info"))
    good = bool(row) and (row["guard"] or {}).get("differed") == 0 and row["total_mib"] == QUOTA_MIB and row["device_total_mib"] == QUOTA_MIB and row["free_mib"] < QUOTA_MIB
    bench.bar("cuMemGetInfo and cuDeviceTotalMem", f"{row['total_mib']:.0f}, {row['device_total_mib']:.0f}, free {row['free_mib']:.0f}" if row else "failed",
              "4096, 4096, less", good)
    bare = subprocess.run(smi_command(bench), capture_output=True, text=True).stdout.strip()
    process = subprocess.run(["timeout", "60", *bench.command(under("smi"), smi_command(bench))], capture_output=True, text=True, env=bench.env)
    bench.said(process, [], process.stderr)
    line = (process.stdout.strip().splitlines() or [f"exit {process.returncode}"])[0]
    figures = [int(n) for n in re.findall(r"\d+", line)]
    bench.bar("nvidia-smi: total, used, free", line,
              f"the instance's (bare: {bare})", process.returncode == 0 and len(figures) == 3 and figures[0] <= QUOTA_MIB and sum(figures[1:]) <= QUOTA_MIB + 1)
    if bench.args.probe:
        linked = subprocess.run(["ldd", bench.args.probe], capture_output=True, text=True).stdout
        bench.bar("the probe has its own cudart", "yes" if "libcudart" not in linked and linked else "no", "it is the static one",
                  "libcudart" not in linked and bool(linked))


def torch_command(bench, *words):
    return [bench.tenant, *words] if bench.mock else ["python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "torch_tenant.py"), *words]


def torch(bench):
    nvml = Nvml()
    for options, quota in ((under("torch"), QUOTA_MIB), (under("torch8", "").replace("4096M", "8192M"), 2 * QUOTA_MIB)):
        run = Held(bench, options, torch_command(bench, "oom", "--mib", "64"))
        if run.wait():
            time.sleep(AUDITED_S)
        seen = look(bench, nvml, run, shlex.split(options)[3])
        status, rows, err = run.release()
        if not seen or len(rows) < 2:
            bench.bar("PyTorch", f"exit {status}, {rows[-1:]} {err[-90:]}", "", False)
            continue
        audited, audits = audit_ok(err)
        bench.fact(f"quota {quota}: {rows}", seen)
        bench.bar(f"PyTorch, quota {quota} MiB: total by NVML", f"{seen['nvml_mib']:.0f} MiB = {seen['nvml_mib'] / quota:.2%}, {rows[0]['error']}",
                  "at most the quota, >= 97 %, OutOfMemoryError",
                  .97 * quota <= seen["nvml_mib"] <= quota and rows[0]["error"] == "OutOfMemoryError")
        bench.bar(f"PyTorch, quota {quota} MiB: afterwards", f"again {rows[1]['again']}, right {rows[1]['right']}, exit {status}, audits {audits}",
                  "ordinary, no difference", rows[1]["again"] and rows[1]["right"] and status == 0 and audited and not seen["library"])


def mapped(bench):
    """The same where the supervisor makes UVM's mappings."""
    bench.env["VGPU_GUARD_MAP"] = "supervisor"
    try:
        kinds(bench)
        torch(bench)
    finally:
        del bench.env["VGPU_GUARD_MAP"]
