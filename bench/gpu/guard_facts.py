"""guard.py: what is not known of the driver yet. Prints answers; has no bars. The tenants are its own, and end with each step."""
import collections
import json
import os
import subprocess
import sys
import time

from common import json_lines
from guard_memory import smi_command
from guard_time import GAP_US, moved_after, standing, summary

QUERIES = {"list": 0x2, "single": 0x12, "list, graphics": 0x402}


def log_of(bench, name):
    path = os.path.join(bench.logs, f"{name}.calls")
    if os.path.exists(path):
        os.unlink(path)
    return path, {"LD_PRELOAD": bench.tool("rmlog.so"), "RMLOG": path}


def read_log(path):
    rows = []
    if os.path.exists(path):
        with open(path) as file:
            for line in file:
                try:
                    rows.append(json.loads(line))
                except json.JSONDecodeError:
                    continue
    return rows


def logged(bench, name, options, program):
    """The calls of a program that runs to its end."""
    path, env = log_of(bench, name)
    words = ["env", *[f"{k}={v}" for k, v in env.items()], *program] if options is None else bench.command(
        options + "".join(f" --env {k}={v}" for k, v in env.items()), program)
    process = subprocess.run(["timeout", "60", *words], capture_output=True, text=True, env=bench.env)
    bench.said(process, json_lines(process.stdout), process.stderr)
    if process.returncode:
        bench.fact(f"{name}: exit {process.returncode}: {process.stdout[-150:]} {process.stderr[-250:]}")
    return read_log(path), process.returncode


def is_channel(one):
    return one.get("call") == "alloc" and one["status"] == 0 and one["class"] & 0xff == 0x6f and one["class"] >= 0xa06f


class Tenant:
    """A bare tenant that runs, and how its objects are called."""

    def __init__(self, bench, name, program):
        path, env = log_of(bench, name)
        self.bench, self.process = bench, bench.start(None, program, env)
        if program[1] == "beat":
            self.process.stdout.readline()
        self.find(path)

    def find(self, path):
        end, before = time.monotonic() + 20, 0
        while True:
            made = [c for c in read_log(path) if c.get("call") == "alloc" and c["status"] == 0]
            channels = [c for c in made if is_channel(c)]
            # All are there once no more come.
            if channels and len(channels) == before:
                break
            before = len(channels)
            time.sleep(.25)
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("no channel was seen")
        # A program has clients for other ends too: the one with the most channels is meant.
        self.client = collections.Counter(c["client"] for c in channels).most_common(1)[0][0]
        own = [c for c in made if c["client"] == self.client]
        self.pid, self.fd = next((c["pid"], c["fd"]) for c in own if is_channel(c))
        self.device = next(c["handle"] for c in own if c["class"] == 0x80)
        self.subdevice = next(c["handle"] for c in own if c["class"] == 0x2080)
        self.groups = [c["handle"] for c in own if c["class"] == 0xa06c]
        self.channels = [c["handle"] for c in own if is_channel(c)][:64]

    def control(self, *operations):
        words = [self.pid, self.fd, self.client, self.device, self.subdevice, ",".join(map(str, self.channels)), *operations]
        process = subprocess.run([self.bench.tool("rmctl"), *map(str, words)], capture_output=True, text=True, timeout=60)
        if process.returncode:
            self.bench.fact(f"rmctl: exit {process.returncode}: {process.stderr[-200:]}")
        return json_lines(process.stdout)

    def end(self):
        row = self.bench.finish(self.process)
        return row.get("gaps", []) if row else []


def answers(row):
    return f"{row['answers']} {row.get('us_p50', 0):.0f} us (p99 {row.get('us_p99', 0):.0f}, max {row.get('us_max', 0):.0f})"


def ask_nvml():
    code = ("import ctypes; n = ctypes.CDLL('libnvidia-ml.so.1'); n.nvmlInit_v2(); d = ctypes.c_void_p(); "
            "n.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(d)); b = (ctypes.c_ulonglong * 8)(); "
            "print(n.nvmlDeviceGetMemoryInfo(d, b), list(b)[:3])")
    return [sys.executable, "-c", code]


def fb(bench):
    whole_smi = ["true"] if bench.mock else ["nvidia-smi"]
    programs = {"libcuda": bench.run("info"), "nvidia-smi": smi_command(bench), "nvidia-smi, all": whole_smi, "NVML": ask_nvml()}
    for name, program in programs.items():
        for options in (None, "--guard --mem 4G"):
            who = f"{name}, {'guard' if options else 'bare'}"
            calls, _ = logged(bench, f"fb-{who.replace(', ', '-')}", options, program)
            asked = collections.OrderedDict()
            for c in calls:
                for index, value in c.get("items", []):
                    asked.setdefault(f"{c['cmd']:#x} {index:#x}", []).append(f"{value / 1024:.0f}")
            controls = collections.Counter(f"{c['cmd']:#x}" for c in calls if c.get("call") == "control")
            of_fb = {k: n for k, n in controls.items() if k.startswith("0x208013")}
            text = "; ".join(f"{k}: {','.join(v[:3])} MiB" for k, v in asked.items())
            bench.fact(f"{who}: {len(calls)} calls; {text or 'no FB_GET_INFO'}; all of FB: {of_fb}", {"asked": asked, "controls": controls})


def mmaps(bench):
    calls, _ = logged(bench, "mmap", None, bench.run("start"))
    found = [c for c in calls if c.get("call") == "mmap"]
    for device in sorted({c["device"] for c in found}):
        of_device = [c for c in found if c["device"] == device]
        sizes = collections.Counter((c["length"], c["prot"], c["flags"], c["failed"]) for c in of_device)
        shown = "; ".join(f"{n} x {k[0]:#x} prot {k[1]} flags {k[2]:#x}{' FAILED' if k[3] else ''}" for k, n in sizes.most_common(8 if "uvm" in device else 3))
        bench.fact(f"{device}: {len(of_device)} mmaps, {sum(c['length'] for c in of_device) / 2**20:.1f} MiB: {shown}", of_device)
    classes = collections.Counter(hex(c["class"]) for c in calls if c.get("call") == "alloc")
    bench.fact(f"start-up: {dict(collections.Counter(c.get('call') for c in calls))}; classes {dict(classes)}")
    slow = sorted((c for c in calls if "ns" in c), key=lambda c: -c["ns"])[:5]
    bench.fact("slowest: " + "; ".join(f"{c.get('call')} {c.get('class', c.get('cmd', 0)):#x} {c['ns'] / 1e6:.1f} ms" for c in slow))


def statuses(calls, kind):
    found = collections.defaultdict(collections.Counter)
    for c in calls:
        if c.get("call") == kind:
            key = c["class"] if kind == "alloc" else c.get("cmd", c.get("nr"))
            found[key][f"{c['status']:#x}" if c["rc"] == 0 and "status" in c else f"errno {c['errno']}" if c["rc"] else "done"] += 1
    return {hex(k): dict(v) for k, v in sorted(found.items())}


def uvm(bench):
    for name, options in (("bare", None), ("guard", "--guard --mem 4G")):
        calls, rc = logged(bench, f"uvm-{name}", options, bench.run("pairs", count=50))
        interesting = {k: v for k, v in statuses(calls, "uvm").items() if int(k, 16) in (33, 34, 66, 73)}
        bench.fact(f"{name}: exit {rc}; UVM 33 MAP, 34 FREE, 66 UNMAP, 73 RANGE: {interesting}; RM_FREE {statuses(calls, 'free')}", statuses(calls, "uvm"))


def execute_all(bench):
    bare, _ = logged(bench, "exec-bare", None, bench.run("info"))
    kept, bench.args.vgpu = bench.args.vgpu, bench.args.vgpu_all
    try:
        calls, rc = logged(bench, "exec-all", "--guard --mem 4G --stats", bench.run("info"))
        load = bench.one("--guard --mem 4G --stats", bench.load(1000, 1))
    finally:
        bench.args.vgpu = kept
    a, b = statuses(bare, "alloc"), statuses(calls, "alloc")
    differ = {k: (a.get(k), b.get(k)) for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)}
    bench.fact(f"every RM_ALLOC executed: exit {rc}; classes whose answers differ (bare, executed): {differ}", {"bare": a, "executed": b})
    bench.fact(f"and work: {load and load['share']}, {load and load['guard']}; with rights given: {sorted({hex(c['class']) for c in bare if c.get('rights')})}")


def beating(bench, us, secs):
    return bench.run("beat", secs=secs, us=us, gap_us=GAP_US)


def switch(bench):
    count = 5 if bench.mock else 40
    for name, us in (("a kernel without end", 0), ("20 us kernels", 20)):
        tenant = Tenant(bench, f"switch-{us}", beating(bench, us, count * .045 + 1.5))
        rows = tenant.control("drop", "cycle", count, 20, 20)
        gaps = tenant.end()
        cycles = [c for row in rows if row["op"] == "cycle" for c in row["cycles"]]
        calls = [(c["off"], c["on"]) for c in cycles]
        stood = standing(calls, gaps)
        offs, ons = ([(c[k][1] - c[k][0]) / 1e3 for c in cycles] for k in ("off", "on"))
        stops, goes = ([s[at] for s in stood if s] for at in (0, 1))
        given = collections.Counter(f"{c['off_answer']} {c['on_answer']}" for c in cycles)
        bench.fact(f"{name}: off takes {summary(offs)} us, work stands {summary(stops)} us after it began; on takes {summary(ons)} us, work "
                   f"goes on {summary(goes)} us after it began", {"cycles": cycles, "gaps": gaps})
        bench.fact(f"{name}: stood {len(stops)} of {len(cycles)} times, moved after off had returned {moved_after(calls, stood)}; answers {dict(given)}; "
                   f"{len(tenant.channels)} channels in {len(tenant.groups)} groups")


def idle_state(bench, state, program, operations, many, gap):
    tenant = Tenant(bench, f"idle-{state.replace(' ', '-').replace(',', '')}", program)
    words = ["drop", *operations]
    for flags in QUERIES.values():
        words += ["query", hex(flags), many, gap, "each", hex(flags & ~0x10)]
    rows = tenant.control(*words, *(("on",) if operations else ()))
    asked = [r for r in rows if r["op"] in ("query", "each")]
    for name, query, each in zip(QUERIES, asked[0::2], asked[1::2]):
        bench.fact(f"{state}, {name}: {answers(query)}; each channel by itself: {answers(each)}", [query, each])
    tenant.end()


def idle_fraction(bench):
    """Whether the moments at which work is said to be there are as many as there is work: what a cap is held by."""
    for us, rest_us in ((100, 0), (1000, 0), (1000, 3000)):
        tenant = Tenant(bench, f"idle-part-{us}-{rest_us}", bench.run("load", us=us, secs=2, rest_us=rest_us))
        row = tenant.control("drop", "query", 0x2, 300, 2000)[-1]
        got = bench.finish(tenant.process)
        busy = sum(n for answer, n in row["answers"].items() if answer in ("0x3", "0x65")) / max(1, sum(row["answers"].values()))
        bench.fact(f"{us} us kernels, {rest_us} us rest: share {got and got['share']}, said to be busy {busy:.3f} of the time: {answers(row)}", row)


def idle(bench):
    many, gap = (5, 1000) if bench.mock else (50, 500)
    rests = bench.run("load", us=1000, secs=2.5, rest_us=2000000)
    works, off = beating(bench, 1000, 2), ("off", "sleep", 5)
    states = [("idle", rests, ()), ("idle, switched off", rests, off), ("busy, 1 ms kernels", works, ()),
              ("busy, a kernel without end", beating(bench, 0, 2), ()), ("off, work waits", works, off)]
    for state, program, operations in states:
        idle_state(bench, state, program, operations, many, gap)
    idle_fraction(bench)
    # Whether asking gets in the way of work.
    tenant = Tenant(bench, "idle-long", beating(bench, 1000, 3))
    time.sleep(.6)
    rows = tenant.control("drop", "query", 0x2, 16 * many, 0)
    gaps, call = tenant.end(), rows[-1]["call"]
    inside, before = ([(g[1] - g[0]) / 1e3 for g in gaps if good(g)] for good in (lambda g: call[0] < g[0] < call[1], lambda g: g[1] < call[0]))
    bench.fact(f"asked one after the other for {(call[1] - call[0]) / 1e6:.0f} ms: {answers(rows[-1])}; the ends of 1 ms kernels meanwhile are {summary(inside)} us "
               f"apart, before that {summary(before)} us", rows)


def ctxsw(bench):
    many = 10 if bench.mock else 50
    for rights, drop in (("as root", ()), ("without CAP_SYS_ADMIN", ("drop",))):
        for state, operations in (("busy, 1 ms kernels", ()), ("off, work waits", ("off", "sleep", 5))):
            tenant = Tenant(bench, f"ctxsw-{len(drop)}-{len(operations)}", beating(bench, 1000, 2))
            words = [*drop, *operations]
            for group in tenant.groups:
                words += ["stats", group, many, 1000]
            rows = tenant.control(*words, "resident", 2 * many, 1000, *(("on",) if operations else ()))
            stats = [r for r in rows if r["op"] == "stats"]
            told = set()
            for row in stats:
                text = f"{row['first']} -> {row['last']}, {row['changes']} changes; {row['answers']}"
                if text not in told:
                    bench.fact(f"{state}, {rights}: {row['names']} of a group: {text}; {answers(row)}", row)
                told.add(text)
            for row in rows:
                if row["op"] == "resident":
                    bench.fact(f"{state}, {rights}: resident channel {row['channels']}; {answers(row)}", row)
            tenant.end()
