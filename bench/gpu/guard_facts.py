"""guard.py: facts about the driver that the guard rests on. The tenants are its own, and end with each step."""
import collections
import json
import os
import subprocess
import time

from common import json_lines
from guard_time import GAP_US, moved_after, standing, summary


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
    """A tenant that runs, and how its objects are called."""

    def __init__(self, bench, name, program, options=None):
        path, env = log_of(bench, name)
        if options is not None:
            options, env = options + "".join(f" --env {k}={v}" for k, v in env.items()), None
        self.bench, self.process = bench, bench.start(options, program, env, 12)
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


def look_group(tenant):
    """The group that has an engine for kernels: the others have no counts."""
    for group in tenant.groups:
        row = tenant.control("stats", group, 1, 0)[-1]
        if "0" in row["answers"]:
            return group
    raise RuntimeError("no group has counts")


def looks(bench):
    """What a preemption says of a tenant: whether it was at work, and what it costs the tenant to be asked."""
    count = 5 if bench.mock else 60
    states = [("idle", bench.run("load", us=1000, secs=1.5, rest_us=2000000)), ("a kernel without end", beating(bench, 0, 1.5)), ("20 us kernels", beating(bench, 20, 1.5))]
    states += [(f"{us} us kernels, {rest} us rest", bench.run("load", us=us, secs=1.5, rest_us=rest))
               for us, rest in ((5000, 0), (1000, 0), (100, 0), (20, 0), (1000, 3000), (100, 100), (100, 300))]
    for state, program in states:
        tenant = Tenant(bench, f"look-{state.replace(' ', '-').replace(',', '')}", program)
        group = look_group(tenant)
        row = tenant.control("drop", "preempt", group, count, 3000)[-1]
        got = bench.finish(tenant.process)
        shown = "; ".join(f"{n} x {c}, {p:.0f} + {s:.0f} us" for c, n, p, s in sorted(row["changes"], key=lambda x: -x[1])[:6])
        bench.fact(f"{state}: share {got and got.get('share')}: save restore wfi cta cilp gfxp: {shown}; {answers(row)}",
                   [row, got])


def pair_looks(bench):
    """The same without a preemption, of two that share the card: does the count of saves move only for the one at work?"""
    for rest in (2000000, 0):
        other = bench.start(None, bench.run("load", us=1000, secs=2.5))
        tenant = Tenant(bench, f"pair-{rest}", bench.run("load", us=1000, secs=2, rest_us=rest))
        group = look_group(tenant)
        row = tenant.control("drop", "stats", group, 50, 5000)[-1]
        bench.finish(tenant.process)
        bench.finish(other)
        bench.fact(f"beside a busy one, rest {rest} us: {row['first']} -> {row['last']}, {row['changes']} changes; {answers(row)}",
                   row)


def goes_on(tenant, limit_s):
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        if tenant.process.poll() is not None:
            return True
        time.sleep(.02)
    return False


def starts(bench):
    """Programs that start while the guard switches their channels: all of them are to get anywhere."""
    hung, rounds = 0, 1 if bench.mock else 2
    for turn in range(rounds):
        tenants = [Tenant(bench, f"start-{turn}-{i}", bench.run("load", us=1000, secs=2.5), "--guard --weight 100 --mem 4G --cores 90 --stats") for i in range(4)]
        time.sleep(.5)
        for tenant in tenants:
            if goes_on(tenant, 4):
                bench.finish(tenant.process)
                continue
            hung += 1
            if tenant.process.poll() is None:
                tenant.process.terminate()
            out, err = tenant.process.communicate()
            bench.said(tenant.process, [], err)
            bench.fact(f"stuck: {out[-100:]} {err[-200:]}")
    bench.bar("programs that start while they are switched: stuck", f"{hung} of {4 * rounds}", "none", hung == 0)


def managed(bench):
    """What managed memory is made of, and what happens when there is no more of it."""
    for name, options in (("bare", None), ("guard", "--guard --mem 4G")):
        calls, rc = logged(bench, f"managed-{name}", options, [bench.probe, "alloc", "managed", "--mib", "256"])
        shown = [f"{c.get('call')} {c.get('device')} {c.get('cmd', c.get('class', c.get('nr', 0))):#x} {c.get('length', 0):#x} {c.get('prot', '')} "
                 f"{c.get('flags', 0):#x} at {c.get('address', 0):#x} rc {c.get('rc')} {c.get('errno')} {c.get('status')}" for c in calls]
        last = max((i for i, c in enumerate(calls) if c.get("call") == "mmap"), default=0)
        bench.fact(f"{name}: exit {rc}, {len(calls)} calls; about the last mmap: " + " | ".join(shown[max(0, last - 8):last + 8]), shown[-200:])


def half(bench):
    """Channels that are kept from being scheduled only: when do they stop, alone and beside another program?"""
    for name, us in (("a kernel without end", 0), ("1 ms kernels", 1000)):
        for company in (False, True):
            other = bench.start(None, bench.run("load", us=1000, secs=2.6)) if company else None
            if other:
                time.sleep(.5)
            tenant = Tenant(bench, f"half-{us}-{company}", beating(bench, us, 1.6))
            cycles = tenant.control("drop", "half", "cycle", 12, 30, 20)[-1]["cycles"]
            gaps = tenant.end()
            if other:
                bench.finish(other)
            calls = [(c["off"], c["on"]) for c in cycles]
            stood = [s for s in standing(calls, gaps) if s]
            bench.fact(f"{name}, {'beside another' if company else 'alone'}: off takes {summary([(o[1] - o[0]) / 1e3 for o, _ in calls])} us, on {summary([(n[1] - n[0]) / 1e3 for _, n in calls])}; "
                       f"stood {len(stood)} of {len(calls)}, {summary([s[0] for s in stood])} us after off began; goes on {summary([s[1] for s in stood])} us after on began", [calls, gaps])


def twice(bench):
    """Channels that are off are switched off again, in each of the ways there are: does the program go on once they are on?"""
    orders = {"off, off": ("off", "off"), "scheduling, off": ("half", "off", "whole", "off"), "off, scheduling": ("off", "half", "off"), "on, on": ("on", "off", "on")}
    for us in (1000, 0):
        for name, order in orders.items():
            tenant = Tenant(bench, f"twice-{us}-{name.replace(', ', '-')}", beating(bench, us, 1.2))
            rows = tenant.control("drop", *order, "sleep", 20, "on", *([*order, "sleep", 20, "on"] * 4))
            given = collections.Counter(r["call_answer"] for r in rows if "call_answer" in r)
            gone = goes_on(tenant, 5)
            if not gone:
                tenant.process.terminate()
            gaps = tenant.end()
            bench.fact(f"{'a kernel without end' if us == 0 else f'{us} us kernels'}, {name}, on, five times: {dict(given)}; "
                       + (f"goes on, longest gap {max((b - a for a, b in gaps), default=0) / 1e6:.1f} ms" if gone else "STANDS FOR EVER"))
