"""What the measuring scripts beside this file share: running tenants, bare and under `vgpu run`, and a record of figures."""
import json
import os
import shlex
import statistics
import subprocess
import tempfile

RESULTS = []
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def record(section, what, value, bar, ok):
    RESULTS.append({"section": section, "what": what, "value": value, "bar": bar, "ok": ok})
    mark = "" if ok is None else "ok" if ok else "MISS"
    print(f"{section:10} {what:58} {value:30} {bar:34} {mark}", flush=True)


def shares(rows):
    return [row["share"] if row else 0.0 for row in rows]


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def compile_tool(source):
    """A program beside this file, built with cc; its path."""
    program = os.path.join(tempfile.mkdtemp(prefix="vgpu-bench."), os.path.splitext(source)[0])
    subprocess.run(["cc", "-O2", "-o", program, os.path.join(ROOT, "bench", "gpu", source), "-ldl"], check=True)
    return program


class Bench:
    def __init__(self, args):
        self.args = args
        self.env = dict(os.environ)
        self.env["VGPU_RUNTIME_DIR"] = tempfile.mkdtemp(prefix="vgpu-bench.")
        # The turn policy is a setting of the device: what another bench asked for last would still count.
        self.env["VGPU_ARENA_DIR"] = tempfile.mkdtemp(prefix="vgpu-bench.", dir="/dev/shm")
        self.scale = 0.5 if args.quick else 1.0
        self.timeouts = 0

    def use_mock(self, build):
        """A rehearsal on simgpu of that build. None: the real card."""
        if build is None:
            return
        self.args.vgpu = os.path.join(build, "vgpu")
        self.env["LD_LIBRARY_PATH"] = os.path.join(os.path.abspath(build), "sim")
        self.env["SIMGPU_STATE"] = os.path.join(self.env["VGPU_RUNTIME_DIR"], "simgpu")

    def command(self, options, program):
        if options is None:
            return program
        return [self.args.vgpu, "run", *shlex.split(options), "--", *program]

    def start(self, options, program, env=None, limit_s=90):
        # Under a supervisor of its own limit: a tenant that hangs is a finding, not the end of the run.
        return subprocess.Popen(["timeout", str(limit_s), *self.command(options, program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, env={**self.env, **(env or {})})

    def finish(self, process):
        out, err = process.communicate()
        rows = json_lines(out)
        self.said(process, rows, err)
        self.timeouts += process.returncode == 124
        if process.returncode != 0 or not rows or "error" in rows[-1]:
            print(f"# exit {process.returncode}: {' '.join(process.args[-8:])}: {out[-200:]} {err[-500:]}", flush=True)
            return None
        return rows[-1]

    def said(self, process, rows, err):
        """For a script that wants more of what a tenant has written."""

    def one(self, options, program, env=None, limit_s=90):
        return self.finish(self.start(options, program, env, limit_s))

    def many(self, runs, env=None):
        """Runs (options, program) side by side; their figures in order."""
        return [self.finish(p) for p in [self.start(o, c, env) for o, c in runs]]

    def load(self, us, secs, **more):
        words = [self.args.probe, "load", "--us", str(us), "--secs", str(secs * self.scale)]
        for key, value in more.items():
            words += [f"--{key.replace('_', '-')}", str(value)]
        return words

    def torch(self, mode, secs):
        return ["python3", self.args.torch, mode, str(secs * self.scale)]


def calibrate(bench):
    row = bench.one(None, bench.load(1000, 1))
    bench.env["PROBE_ITERS_PER_US"] = str(row["iters_per_us"])
    print(f"# {row['iters_per_us']} iterations a microsecond", flush=True)


def paired(count, bare, other):
    """Figures of two ways to do the same, in turn; the order alternates, so that a drifting machine favours neither."""
    sides = ([], [])
    for i in range(count):
        for which in (0, 1) if i % 2 == 0 else (1, 0):
            sides[which].append((bare, other)[which]())
    return sides


def difference(sides, field):
    """Of the second side from the first: between the medians, and between the best (the machine has fast and slow times)."""
    a, b = ([row[field] for row in side if row] for side in sides)
    if not a or not b:
        return None
    return {"bare": statistics.median(a), "best_bare": min(a), "median": statistics.median(b) - statistics.median(a), "best": min(b) - min(a),
            "pairs": [[x[field] if x else None, y[field] if y else None] for x, y in zip(*sides)]}
