#!/usr/bin/env python3
"""`vgpu run --guard` on a real card: each bar beside what was got, and the facts about the driver that it rests on.

usage: guard.py --probe PATH [--vgpu PATH] [--tools DIR] [--only STEP,...] [--rounds N] [--json FILE] [--logs DIR]
                [--train-secs N] [--train-reference FILE] [--deadline SECS] [--quick]
       guard.py --plan
       guard.py --mock BUILD [...]

--probe     gpuprobe, linked with a static cudart: `alloc KIND --mib N` allocates until it is refused and prints got_mib and rc;
            `latency` prints init_ms, launch_us_mean, launch_us_p50, launch_sync_us_p50, malloc_us_p50, free_us_p50, meminfo_us_p50
--tools     where tenant, rmctl and rmlog.so are, or are to be built with cc
--train-reference  facts.json of a call that has trained bare: it is not done again
--plan      what would be done, and about how long it takes
--mock      a rehearsal without a GPU: vgpu and the fake driver of that build, stand-ins for the programs. Its figures mean nothing.

Whatever is compared runs in this one call, in turn. Changes no setting of the card: channels are switched, of tenants that it
has started, and every tenant ends with its step. Steps that would not end before the deadline are left out, and said.
"""
import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

import guard_cost
import guard_facts
import guard_memory
import guard_time
import guard_train
from common import RESULTS, ROOT, Bench, record

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = {
    "tenant": ["tenant.c", "tenant_cuda.c"],
    "rmctl": ["rmctl.c"],
    "rmlog.so": ["rmlog.c"],
    "tenant_mock": ["tenant.c", "tenant_mock.c", "../../tests/guard/rmclient.c", "../../tests/guard/rmclient_compute.c"],
}
OPTIONS = {"rmlog.so": ["-fPIC", "-shared", "-fvisibility=hidden"], "tenant_mock": ["-Itests/guard", "-Dsyscall=mock_syscall"]}

# name, about how many seconds on the card, what it needs beside vgpu and the tools, function, what it is about
STEPS = [
    ("starts", 10, "", guard_facts.starts, "programs that start while they are switched"),
    ("memory", 20, "probe", guard_memory.kinds, "every kind of allocation at 4 GiB: total by NVML, error, no library, audit"),
    ("view", 8, "", guard_memory.view, "cuMemGetInfo, cuDeviceTotalMem and nvidia-smi inside; a static cudart"),
    ("torch", 20, "torch", guard_memory.torch, "PyTorch: out of memory is ordinary, and so is what follows"),
    ("mapped", 40, "probe", guard_memory.mapped, "memory and torch again, with VGPU_GUARD_MAP=supervisor"),
    ("start", 12, "", guard_cost.start, "start-up of a CUDA program"),
    ("launch", 6, "", guard_cost.launch, "launches make no call that is checked"),
    ("calls", 12, "", guard_cost.calls, "cuMemAlloc + cuMemFree, cuMemGetInfo, and what one checked call costs"),
    ("latency", 35, "probe", guard_cost.latency, "the same and launches by gpuprobe, in pairs"),
    ("lone", 18, "", guard_time.lone, "a tenant that is alone, or below its cap, is not switched"),
    ("caps", 40, "", guard_time.caps, "25, 50 and 75 % at 10 ms and 100 us kernels"),
    ("turns", 32, "", guard_time.turns, "two equal, weights 1:3, 100 us against 5 ms"),
    ("pause", 12, "", guard_time.pause, "vgpu pause and vgpu resume, as the tenant's kernels show them"),
    ("beside", 8, "", guard_time.beside, "a tenant with the preloaded library beside one under the guard"),
    ("fact-managed", 4, "probe", guard_facts.managed, "mappings of managed memory, and the end of them"),
    ("fact-half", 10, "", guard_facts.half, "channels that are kept from being scheduled only"),
    ("fact-switch", 9, "", guard_facts.switch, "FIFO_DISABLE_CHANNELS: when work stops and goes on"),
    ("train", 190, "torch", guard_train.train, "training under a 50 % cap, against a bare run with the same seed"),
    ("fact-look", 25, "", guard_facts.looks, "what a preemption and the counts of saves say of a tenant"),
    ("fact-twice", 20, "", guard_facts.twice, "channels that are switched off though they are off"),
    ("fact-pair", 8, "", guard_facts.pair_looks, "the counts of saves of two that share the card"),
]

TIMEOUTS_MOST = 2  # time on a card is scarce


class GuardBench(Bench):
    def __init__(self, args):
        super().__init__(args)
        self.begin = time.monotonic()
        self.mock = args.mock is not None
        if self.mock:
            self.env["VGPU_RUNTIME_DIR"] = os.environ["VGPU_RUNTIME_DIR"]
        self.tools = args.tools or tempfile.mkdtemp(prefix="vgpu-tools.")
        self.logs = args.logs or tempfile.mkdtemp(prefix="vgpu-logs.")
        os.makedirs(self.logs, exist_ok=True)
        self.stderr = open(os.path.join(self.logs, "stderr.log"), "a", buffering=1)
        self.facts = []
        self.tenant = os.path.join(self.tools, "tenant_mock" if self.mock else "tenant")
        self.probe = self.tenant if self.mock else args.probe
        self.step = ""

    def start(self, options, program, env=None, limit_s=20):
        if self.timeouts >= TIMEOUTS_MOST:
            raise RuntimeError("programs hang: nothing more is started")
        return super().start(options, program, env, limit_s)

    def left(self):
        return self.args.deadline - (time.monotonic() - self.begin)

    def build(self):
        os.makedirs(self.tools, exist_ok=True)
        for name, sources in SOURCES.items():
            path = os.path.join(self.tools, name)
            if os.path.exists(path) or (name == "tenant_mock" and not self.mock):
                continue
            subprocess.run(["cc", "-O2", "-std=gnu17", "-D_GNU_SOURCE", "-Isrc", *OPTIONS.get(name, []), "-o", path,
                            *[os.path.join(HERE, s) for s in sources], "-ldl", "-lm", "-lpthread"], cwd=ROOT, check=True)

    def tool(self, name):
        return os.path.join(self.tools, name)

    def later(self):
        """What the chosen steps after this one want."""
        names = [s[0] for s in self.steps]
        return sum(s[1] for s in self.steps[names.index(self.step) + 1:])

    def run(self, mode, **options):
        words = [self.tenant, mode]
        for key, value in options.items():
            words += [f"--{key.replace('_', '-')}", str(value)]
        return words

    def load(self, us, secs, **more):
        return self.run("load", us=us, secs=secs * self.scale, **more)

    def said(self, process, rows, err):
        self.stderr.write(f"== {self.step}: {shlex.join(process.args[2:])}: {process.returncode}\n{err}")
        if rows:
            rows[-1]["first"] = dict(rows[0])
            rows[-1]["guard"] = guard_says(err)

    def fact(self, text, data=None):
        """A finding that has no bar: a line here, and what it comes from in facts.json."""
        self.facts.append({"step": self.step, "text": text, "data": data})
        print(f"{self.step:11} {text}", flush=True)

    def bar(self, what, got, bar, ok):
        record(self.step, what, got, bar, ok)


def guard_says(err):
    """The last line of --stats about the guard."""
    found = re.findall(r"guard: calls checked (\d+), memory refused (\d+), audits (\d+), of which differed (\d+), switches of channels (\d+)", err)
    return dict(zip(("calls", "refused", "audits", "differed", "switches"), map(int, found[-1]))) if found else None


def calibrate(bench):
    row = bench.one(None, bench.run("load", us=1000, secs=1))
    if not row:
        sys.exit("guard.py: the tenant does not run here")
    bench.env["TENANT_ITERATIONS"] = str(row["iters_per_us"])
    print(f"# {row['iters_per_us']} iterations a microsecond; alone {row['share']}", flush=True)


def chosen_steps(args):
    names = args.only.split(",") if args.only else [s[0] for s in STEPS]
    for name in names:
        if name not in [s[0] for s in STEPS]:
            sys.exit(f"guard.py: there is no step {name}")
    return [s for s in STEPS if s[0] in names]


def plan(steps):
    for name, secs, needs, _, what in steps:
        print(f"{name:12} {secs:4} s  {what}{' (needs --' + needs + ')' if needs == 'probe' else ''}")
    print(f"{'together':12} {sum(s[1] for s in steps):4} s")


def missing(bench, needs):
    if needs == "torch":
        return not bench.mock and subprocess.run(["python3", "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0
    return bool(needs) and not bench.mock and not getattr(bench.args, needs)


def do(bench, step):
    name, secs, needs, function, _ = step
    bench.step = name
    if missing(bench, needs):
        return bench.bar("the whole step", "left out", f"needs {needs}", None)
    if not bench.mock and bench.left() < (secs if name != "train" else 60):
        return bench.bar("the whole step", "left out", "no time left", None)
    begin = time.monotonic()
    try:
        function(bench)
    except Exception as error:  # a step that fails is a finding; the others still count
        traceback.print_exc(file=bench.stderr)
        bench.bar("the whole step", f"{type(error).__name__}: {error}"[:60], "", False)
    print(f"# {name}: {time.monotonic() - begin:.0f} s of {secs}", flush=True)


def table():
    rows = [r for r in RESULTS if r["bar"] or r["ok"] is not None]
    print(f"\n{'bar':74} | {'got':44} | met")
    for r in rows:
        met = {None: "-", True: "yes", False: "NO"}[r["ok"]]
        print(f"{(r['section'] + ': ' + r['what'] + (', ' + r['bar'] if r['bar'] else ''))[:74]:74} | {r['value'][:44]:44} | {met}")
    bars = [r for r in rows if r["ok"] is not None]
    print(f"{sum(r['ok'] for r in bars)} of {len(bars)} met", flush=True)


def save(bench):
    files = {"guard.json": {"results": RESULTS, "plan": [s[:2] for s in STEPS]}, "facts.json": bench.facts}
    for name, data in files.items():
        with open(os.path.join(bench.logs, name), "w") as file:
            json.dump(data, file, indent=1)
    if bench.args.json:
        shutil.copy(os.path.join(bench.logs, "guard.json"), bench.args.json)


def rehearse(args):
    """Again, beside a fake driver."""
    build = os.path.realpath(args.mock)
    command = [os.path.join(ROOT, "tests/guard/run.sh"), build, "--mem", "32G", "--", sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    os.execv(command[0], command)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--probe")
    parser.add_argument("--vgpu", default="build/vgpu")
    parser.add_argument("--tools")
    parser.add_argument("--only")
    parser.add_argument("--rounds", type=int, default=5, help="of pairs")
    parser.add_argument("--json")
    parser.add_argument("--logs")
    parser.add_argument("--train-secs", type=int, default=120)
    parser.add_argument("--train-reference", metavar="FILE")
    parser.add_argument("--deadline", type=float, default=560)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--mock", metavar="BUILD")
    return parser.parse_args()


def main():
    args = parse()
    steps = chosen_steps(args)
    if args.plan:
        return plan(steps)
    if args.mock and not os.environ.get("FAKERM_DIR"):
        rehearse(args)
    if args.mock:
        args.vgpu = os.path.join(os.path.realpath(args.mock), "vgpu")
        os.environ["VGPU_GUARD_DEV"] = os.environ["FAKERM_DIR"]
    bench = GuardBench(args)
    bench.steps = steps
    bench.build()
    calibrate(bench)
    for step in steps:
        do(bench, step)
        save(bench)
    subprocess.run("tar czf calls.tar.gz *.calls && rm -f *.calls", shell=True, cwd=bench.logs, stderr=subprocess.DEVNULL)
    table()
    print(f"# {time.monotonic() - bench.begin:.0f} s; logs in {bench.logs}", flush=True)
    return sys.exit(any(r["ok"] is False for r in RESULTS))


if __name__ == "__main__":
    main()
