"""guard.py: caps, turns, pause and resume. Shares are kernels done x their length alone / wall time."""
import statistics
import subprocess
import time

from common import json_lines, paired, shares

SHARE = "--guard --weight 100"
GAP_US = 300  # what the tenant takes for standing still


def lone(bench):
    program = bench.load(1000, 1.5)
    sides = paired(3, lambda: bench.one(None, program), lambda: bench.one(f"{SHARE} --stats", program))
    bare, guarded = (max([r["share"] for r in side if r], default=0) for side in sides)
    switches = [r["guard"]["switches"] for r in sides[1] if r and r["guard"]]
    bench.bar("alone, 1 ms kernels: bare, guard (best)", f"{bare:.4f}, {guarded:.4f}", "within 0.01", bool(guarded) and guarded >= bare - .01)
    bench.bar("alone: switches of channels", f"{switches}", "none", bool(switches) and not any(switches))
    row = bench.one("--guard --cores 50 --stats", bench.load(1000, 1.5, rest_us=4000))
    bench.bar("20 % wanted, cap of 50 %: switches", f"{row['guard'] and row['guard']['switches']}, share {row['share']:.3f}" if row else "failed", "none",
              bool(row) and bool(row["guard"]) and row["guard"]["switches"] == 0)


def caps(bench):
    for name, us in (("10 ms", 10000), ("100 us", 100)):
        natural = bench.one(None, bench.load(us, 1.2))
        for cap in (25, 50, 75):
            row = bench.one(f"--guard --cores {cap} --stats", bench.load(us, 5))
            if not row or not natural:
                bench.bar(f"{name} kernels, {cap} %", "failed", "", False)
                continue
            target = min(cap / 100, natural["share"])
            bench.bar(f"{name} kernels, {cap} % (natural {natural['share']:.3f})",
                      f"{row['steady_share']:.4f} sd {row['window_sd']:.4f}, switches {row['guard'] and row['guard']['switches']}",
                      f"{target:.3f} +-.02, sd of 200 ms <= .03", abs(row["steady_share"] - target) <= .02 and row["window_sd"] <= .03)


def turns(bench):
    rounds = 2
    native = [shares(bench.many([(None, bench.load(1000, 2.5))] * 2)) for _ in range(rounds)]
    equal = [shares(bench.many([(SHARE, bench.load(1000, 3))] * 2)) for _ in range(rounds)]
    best = max(equal, key=sum)
    bench.fact(f"two equal: native {native}, guard {equal}")
    bench.bar("two equal, 1 ms kernels", f"{best[0]:.4f} + {best[1]:.4f} = {sum(best):.4f}", f"sum >= .95 (native {max(map(sum, native)):.3f})",
              sum(best) >= .95 and min(best) > .4)
    a, b = shares(bench.many([("--guard --weight 100", bench.load(1000, 3)), ("--guard --weight 300", bench.load(1000, 3))]))
    total = a + b or 1
    bench.bar("weights 1:3, 1 ms kernels", f"{a:.4f} {b:.4f} ({a / total:.3f} {b / total:.3f} of the sum)", ".25 and .75 of the sum +-.02",
              abs(a / total - .25) <= .02 and total > .5)
    a, b = shares(bench.many([(SHARE, bench.load(100, 3)), (SHARE, bench.load(5000, 3))]))
    bench.bar("100 us against 5 ms kernels", f"{a:.4f} {b:.4f}", "half of the sum +-.05", abs(a - b) / 2 <= .05 and a + b > .5)


def beside(bench):
    a, b = shares(bench.many([("--weight 100", bench.load(1000, 3)), (SHARE, bench.load(1000, 3))]))
    bench.bar("preload beside guard, 1 ms kernels", f"{a:.4f} + {b:.4f} = {a + b:.4f}", "half of the sum +-.05",
              abs(a - b) / 2 <= .05 and a + b > .5)


def timed(bench, *words):
    """From just before the command was started to its end."""
    process = subprocess.run([bench.tool("rmctl"), "time", bench.args.vgpu, *words], capture_output=True, text=True, env=bench.env, timeout=30)
    bench.said(process, [], process.stderr)
    rows = json_lines(process.stdout)
    return rows[-1] if rows and rows[-1]["status"] == 0 else None


class Beating:
    """A tenant that tells when nothing moved."""

    def __init__(self, bench, options, secs, us, env=None):
        self.bench = bench
        self.process = bench.start(options, bench.run("beat", secs=secs, us=us, gap_us=GAP_US), env)
        self.first = self.process.stdout.readline()

    def gaps(self):
        row = self.bench.finish(self.process)
        return row["gaps"] if row else []


def standing(calls, gaps):
    """For each (stop, go) of calls [begin, end]: how long after the beginning of the one nothing moved any more, and after that of the
    other something did, in us; None where the tenant has not stood still."""
    found = []
    for stop, go in calls:
        across = [g for g in gaps if stop[0] - 2e6 < g[0] < go[0] < g[1]]
        found.append(((across[0][0] - stop[0]) / 1e3, (across[0][1] - go[0]) / 1e3) if across else None)
    return found


def moved_after(calls, stood):
    """How often the first call had returned and something still moved."""
    return sum(1 for (stop, _), one in zip(calls, stood) if not one or one[0] * 1e3 > stop[1] - stop[0])


def summary(values):
    return f"{statistics.median(values):.0f} (max {max(values):.0f})" if values else "none"


def pause(bench):
    count, rest_s = (5, .2) if bench.mock else (25, .04)
    nothing = [timed(bench, "help", "version") for _ in range(9)]
    bench.fact(f"a process of vgpu that does nothing: {summary([(r['end_ns'] - r['begin_ns']) / 1e3 for r in nothing if r])} us")
    for kernel, us in (("a kernel without end", 0), ("20 us kernels", 20)):
        name = f"pause-{us}"
        tenant = Beating(bench, f"{SHARE} --name {name}", count * 2 * (rest_s + .01) + 1.5, us)
        time.sleep(.3)
        calls = []
        for _ in range(count):
            stop = timed(bench, "pause", name)
            time.sleep(rest_s)
            go = timed(bench, "resume", name)
            time.sleep(rest_s)
            if stop and go:
                calls.append(((stop["begin_ns"], stop["end_ns"]), (go["begin_ns"], go["end_ns"])))
        gaps = tenant.gaps()
        stood = standing(calls, gaps)
        bench.fact(f"{kernel}: pause returned after {summary([(s[1] - s[0]) / 1e3 for s, _ in calls])} us, "
                   f"resume {summary([(g[1] - g[0]) / 1e3 for _, g in calls])} us", {"calls": calls, "gaps": gaps, "stood": stood})
        for at, what in enumerate(("pause", "resume")):
            values = [s[at] for s in stood if s]
            bench.bar(f"{what}, {kernel}: from the start of the command, us", f"{summary(values)}, {len(values)} of {count}", "median <= 2000",
                      len(values) >= .9 * count and statistics.median(values) <= 2000)
        late = moved_after(calls, stood)
        bench.bar(f"pause, {kernel}: something moved after it had returned", f"{late} of {len(calls)}", "never", bool(calls) and not late)
