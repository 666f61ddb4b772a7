"""How far what `tidemark recommend` predicts is from what a device does.

usage: recommend.py [--costs=FILE] [--bases=cuda,driver,vmm] [--each=3] [--turns=2] [--time=S] TIDEMARK INPUT...

INPUT: a trace or RMM's CSV. Of the stacks that `recommend` tries over each base, the best and the worst of its aim are
replayed over the base itself. It prints what was predicted beside what was reserved and how long it took, the least of
the turns, and for each input Kendall's tau of the two orders by time. Memory of `cuda` must be equal to the byte, that of
`vmm` within a page, that of `driver` within one of the driver's units; time within a fifth; tau at least 0.8.
"""

import getopt
import json
import os
import re
import subprocess
import sys
import time

MIB = 1 << 20
SLACK = {"cuda": 0, "driver": 32 * MIB, "vmm": 2 * MIB}


def answer(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode > 1 or not done.stdout:
        raise RuntimeError(done.stderr.strip() or f"exit status {done.returncode}")
    return json.loads(done.stdout)


def chosen(found, base, each):
    """The best and the worst of the stacks over a base that serve all requests, in the order of the aim `both`."""
    program = sum(traffic["duration_ns"] for traffic in found["inputs"])
    list_ = [one for one in found["stacks"] if one["base"] == base and one["error"] is None and one["failures"] == 0]
    list_.sort(key=lambda one: one["reserved_peak_bytes"] * (program + one["ns"]))
    return list_ if len(list_) <= 2 * each else list_[:each] + list_[-each:]


def replayed(tidemark, stack, name, turns):
    """What the base had reserved at most, and the least time."""
    text = re.sub(r"sim\(model=(\w+)\)", r"\1", stack["model"])
    runs = [answer([tidemark, "replay", "--json", "--stack", text, name]) for _ in range(turns)]
    reserved = max(sum(layer["reserved_peak_bytes"] or 0 for layer in run["layers"] if layer["kind"] == stack["base"])
                   for run in runs)
    if any(run["failures"] for run in runs):
        raise RuntimeError(runs[0]["first_failure"])
    return reserved, min(run["duration_ns"] for run in runs)


def tau(pairs):
    """Kendall's tau-a of pairs of times."""
    score = count = 0
    for i, one in enumerate(pairs):
        for other in pairs[:i]:
            product = (one[0] - other[0]) * (one[1] - other[1])
            score += (product > 0) - (product < 0)
            count += 1
    return score / count if count else 1


def measure(tidemark, name, options, deadline):
    command = [tidemark, "recommend", "--json"] + (["--costs", options["costs"]] if options["costs"] else []) + [name]
    found, pairs, wrong = answer(command), [], []
    title = os.path.basename(name).split(".")[0]
    for base in options["bases"].split(","):
        for stack in chosen(found, base, int(options["each"])):
            if time.monotonic() > deadline:
                print(f"{title}: no time for {stack['stack']}", flush=True)
                continue
            try:
                reserved, ns = replayed(tidemark, stack, name, int(options["turns"]))
            except RuntimeError as error:
                print(f"{title}: {stack['stack']}: {error}", flush=True)
                wrong.append(stack)
                continue
            off = reserved - stack["reserved_peak_bytes"]
            pairs.append((stack["ns"], ns))
            wrong += [stack] if abs(off) > SLACK[base] else []
            print(f"| {title} | `{stack['stack']}` | {stack['reserved_peak_bytes'] / MIB:.1f} | {reserved / MIB:.1f} | "
                  f"{off / MIB:+.2f} | {stack['ns'] / 1e6:.1f} | {ns / 1e6:.1f} | {ns / stack['ns']:.2f} |", flush=True)
    near = sum(abs(real / said - 1) <= 0.2 for said, real in pairs)
    print(f"{title}: {len(pairs)} stacks, memory not as predicted {len(wrong)}, time within a fifth {near}, "
          f"tau {tau(pairs):.2f}", flush=True)
    return pairs


def main():
    options = {"costs": "", "bases": "cuda,driver,vmm", "each": "3", "turns": "2", "time": "3600"}
    try:
        given, names = getopt.getopt(sys.argv[1:], "", [name + "=" for name in options])
    except getopt.GetoptError as error:
        sys.exit(f"recommend.py: {error}\n{__doc__}")
    options.update((name[2:], value) for name, value in given)
    if len(names) < 2:
        sys.exit(__doc__)
    deadline = time.monotonic() + float(options["time"])
    print("| trace | stack | predicted MiB | reserved MiB | off | predicted ms | ms | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for name in names[1:]:
        measure(names[0], name, options, deadline)


if __name__ == "__main__":
    main()
