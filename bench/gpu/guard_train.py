"""guard.py: training under a cap is the training. It has the card for itself: beside another it may get no more than its cap anyway."""
import json

from common import json_lines
from guard_memory import torch_command

EVERY = 20


def figures(bench, process):
    """{step: (loss, hash)}, and the last line."""
    out, err = process.communicate()
    rows = json_lines(out)
    bench.said(process, rows, err)
    if process.returncode or not rows or rows[-1].get("mode") != "train":
        print(f"# exit {process.returncode}: {out[-300:]} {err[-500:]}", flush=True)
        return None, None
    return {r["step"]: (r["loss"], r["hash"]) for r in rows if "step" in r}, rows[-1]


def earlier(path):
    """The bare run of another call: facts.json of it."""
    with open(path) as file:
        data = next(f["data"] for f in json.load(file) if f["step"] == "train")
    return {int(step): tuple(row) for step, row in data["bare"].items()}, data["bare_end"]


def train(bench):
    secs, reference = bench.args.train_secs, bench.args.train_reference
    if bench.mock:
        secs = min(secs, 4)
    else:
        secs = min(secs, (bench.left() - bench.later() - 30) / (1 if reference else 1.7))
    command = lambda s: torch_command(bench, "train", "--secs", f"{s:.0f}", "--every", str(EVERY))
    limit = secs + 90
    if reference:
        bare, bare_end = earlier(reference)
    else:
        bare, bare_end = figures(bench, bench.start(None, command(.65 * secs), limit_s=limit))
    capped = bench.start("--guard=strict --stats --cores 50 --mem 40G" if not bench.mock else "--guard=strict --stats --cores 50 --mem 4G", command(secs),
                         limit_s=limit)
    got, end = figures(bench, capped)
    what = f"{secs:.0f} s of training at 50 %, after {'an earlier' if reference else 'the'} bare run"
    if not bare or not got:
        return bench.bar(what, "failed", "equal to the bare run", False)
    both = sorted(set(bare) & set(got))
    unequal = [s for s in both if bare[s] != got[s]]
    bench.fact(f"bare {bare_end}, capped {end}: {end['steps'] / end['secs'] / (bare_end['steps'] / bare_end['secs']):.3f} of its speed; "
               f"loss {got[min(got)][0]:.5f} to {got[max(got)][0]:.5f}", {"bare": bare, "bare_end": bare_end, "capped": got, "guard": end.get("guard")})
    bench.bar(what, f"{len(both) - len(unequal)} of {len(both)} equal, to step {both[-1] if both else 0} of {end['steps']}"
              + (f", unequal from {unequal[0]}" if unequal else ""), "no error, all equal", bool(both) and not unequal)
    guard = end.get("guard") or {}
    bench.bar("training: audit differences", str(guard.get("differed")), "none", guard.get("differed") == 0)
    bench.bar("training: switches of channels", str(guard.get("switches")), "some", bool(guard.get("switches")))
