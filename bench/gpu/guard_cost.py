"""guard.py: what a program pays."""
import subprocess
import time

from common import difference, json_lines, paired

QUOTA = "--guard --mem 16G"


def describe(found, unit):
    return f"best {found['best']:+.2f} {unit}, median {found['median']:+.2f} (bare {found['best_bare']:.2f})" if found else "failed"


def at_most(bench, what, sides, field, bar, unit):
    found = difference(sides, field)
    bench.facts.append({"step": bench.step, "text": what, "data": found})
    # Best against best: the machine changes between two speeds by itself, and medians that mix both say little.
    bench.bar(what, describe(found, unit), f"<= {bar} {unit}" if bar is not None else "", None if bar is None else bool(found) and found["best"] <= bar)


def until_ready(bench, options):
    """From before the first process to the context."""
    begin = time.monotonic_ns()
    process = subprocess.run(["timeout", "60", *bench.command(options, bench.run("start"))], capture_output=True, text=True, env=bench.env)
    wall = time.monotonic_ns() - begin
    rows = json_lines(process.stdout)
    bench.said(process, rows, process.stderr)
    if process.returncode or not rows:
        return None
    return {"ready_ms": (rows[0]["ready_ns"] - begin) / 1e6, "init_ms": rows[0]["init_ms"], "wall_ms": wall / 1e6}


def start(bench):
    until_ready(bench, None)
    sides = paired(2 * bench.args.rounds, lambda: until_ready(bench, None), lambda: until_ready(bench, QUOTA))
    at_most(bench, "from nothing to a context, vgpu's own start in it", sides, "ready_ms", 30, "ms")
    at_most(bench, "the context by itself", sides, "init_ms", None, "ms")
    at_most(bench, "from nothing to the end of the process", sides, "wall_ms", None, "ms")


def checked(bench, mode, count, more=""):
    """Calls that waited for the supervisor in a run of so many."""
    row = bench.one(f"{QUOTA} {more} --stats", bench.run(mode, count=count))
    return row["guard"]["calls"] if row and row["guard"] else None


def launch(bench):
    few, many = (checked(bench, "launches", n) for n in (1000, 21000 if bench.mock else 201000))
    bench.bar("calls checked in 1000 launches, and in 200 000 more", f"{few}, {many}", "the same", few is not None and few == many)


def calls(bench):
    few, many = 200, 1200
    a, b = (checked(bench, "pairs", n) for n in (few, many))
    sides = paired(bench.args.rounds, lambda: bench.one(None, bench.run("pairs", count=many)), lambda: bench.one(QUOTA, bench.run("pairs", count=many)))
    at_most(bench, "cuMemAlloc of 4 MiB", sides, "malloc_us_p50", 30, "us")
    at_most(bench, "cuMemFree", sides, "free_us_p50", None, "us")
    at_most(bench, "cuMemGetInfo", sides, "meminfo_us_p50", None, "us")
    mapped = paired(2, lambda: bench.one(None, bench.run("pairs", count=many)), lambda: bench.one(QUOTA, bench.run("pairs", count=many), {"VGPU_GUARD_MAP": "supervisor"}))
    at_most(bench, "cuMemAlloc, mapped by the supervisor", mapped, "malloc_us_p50", None, "us")
    found = difference(sides, "pair_us_p50")
    if found and a is not None and b is not None and b > a:
        each = (b - a) / (many - few)  # one of cuMemGetInfo is in it
        info = difference(sides, "meminfo_us_p50")
        bench.fact(f"alloc + free + getinfo: {each:.2f} calls are checked, {(found['best'] + info['best']) / each:.1f} us each (best), "
                   f"{(found['median'] + info['median']) / each:.1f} us (median)")


def latency(bench):
    program = [bench.probe, "latency"]
    sides = paired(max(2, bench.args.rounds - 1), lambda: bench.one(None, program), lambda: bench.one(QUOTA, program))
    at_most(bench, "cudaMalloc, p50", sides, "malloc_us_p50", 30, "us")
    for field, near in (("launch_us_p50", .1), ("launch_us_mean", .2), ("launch_sync_us_p50", .3)):
        found = difference(sides, field)
        # "0" as far as the machine shows it: 2 % of the call, or what two bare runs differ by.
        bench.bar(f"launch: {field}", describe(found, "us"), f"0 (within {near} us or 3 %)",
                  bool(found) and found["best"] <= max(near, .03 * found["best_bare"]))
    for field, unit in (("free_us_p50", "us"), ("meminfo_us_p50", "us"), ("init_ms", "ms")):
        at_most(bench, field, sides, field, None, unit)
