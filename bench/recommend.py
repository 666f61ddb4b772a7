"""How far what `tidemark recommend` predicts is from what a device does.

usage: recommend.py [--costs=FILE | --measure=FILE] [--bases=cuda,driver,vmm] [--each=3] [--turns=2] [--time=330]
                    [--json=FILE] TIDEMARK INPUT...

INPUT: a trace or RMM's CSV. Of the stacks that `recommend` tries over each base, the best and the worst of its aim
`both` (--each of them, up to 8) are replayed over the base itself, once in each turn. --costs takes what
`tidemark devices --measure` has written; --measure measures the device first, and writes the file.

It prints what was predicted beside what was reserved and how long it took, the least of the turns, how far the second
least is from that, and a line for each claim. Beside the claim for times stands how many stacks took the same time in
their first two turns, within a fifth: predictions cannot be expected to do better. The time of a replay begins after
its context and its streams are made; it has the first growth, which is a part of the prediction, and the first calls
of a process, which is why a second turn goes the other way round. A stack that is predicted to take less than 100 ms
is replayed several times within the process, each time with a stack of its own, since the machine disturbs it more
than a long one. The claims: PASS, FAIL, or OPEN where not all of it was measured. Memory of `cuda` and of `driver`
must be equal to the byte (`cuda` knows what it was asked for, and not what the driver rounds that up to, so a replay
over `sim` predicts it), that of `vmm` within a page; time within a fifth; Kendall's tau of the order by time at least
0.8. --time bounds the whole, in seconds: all inputs have had their first turn before one has its second, and what is
left out is said. The exit status is 0, 1 where a claim fails, 2 after wrong use, 3 where a claim is open.
"""

import getopt
import json
import os
import re
import signal
import subprocess
import sys
import time

MIB = 1 << 20
PAGE = 2 * MIB
BASES = ("cuda", "driver", "vmm")
WITHIN = {"cuda": "to the byte", "driver": "to the byte", "vmm": "within a page"}
SAME_TIME, LEAST_TAU = 0.2, 0.8

# A replay is ended after so many times its predicted time, and as many seconds more, which the driver takes to start.
SLOW, START = 10, 20

# Replays of less are made again within a process, of which each takes so many stacks.
SHORT_NS, STACKS = 100e6, 16

# Predicted times that are nearer to each other than this are left out of the second tau.
NEAR = 1.1


class Failed(Exception):
    """A command that gave no answer, with its words."""


class Late(Failed):
    """A command that was ended before it gave an answer."""


class Ended(Exception):
    """Somebody ends the run."""


def say(words):
    print(words, file=sys.stderr, flush=True)


def answer(command, seconds):
    """What a command prints as JSON."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=max(seconds, 1))
    except subprocess.TimeoutExpired:
        raise Late(f"no end after {seconds:.0f} s") from None
    except OSError as error:
        raise Failed(f"{command[0]}: {error.strerror}") from None
    # 1 is a finding and 3 an incomplete trace: there is an answer.
    if done.returncode not in (0, 1, 3) or not done.stdout:
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise Failed(f"ended by signal {-done.returncode}: {last}" if done.returncode < 0 else last)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise Failed("its answer is no JSON") from None


def allowance(base):
    """How far the reserved bytes may be from what was predicted."""
    return PAGE if base == "vmm" else 0


def tau(pairs, near=1.0):
    """Kendall's tau-a of pairs of times; None without a pair of them. First times within `near` are left out."""
    score = count = 0
    for i, one in enumerate(pairs):
        for other in pairs[:i]:
            if near > 1 and max(one[0], other[0]) < near * min(one[0], other[0]):
                continue
            product = (one[0] - other[0]) * (one[1] - other[1])
            score += (product > 0) - (product < 0)
            count += 1
    return score / count if count else None


def reserved_by(found, kind):
    """What the bases of a replay have reserved at most."""
    return sum(layer["reserved_peak_bytes"] or 0 for layer in found["layers"] if layer["kind"] == kind)


def replay_of(tidemark, texts, path, seconds):
    """The answers of a replay through stacks, in their order."""
    found = answer([tidemark, "replay", "--json", *(word for text in texts for word in ("--stack", text)), path], seconds)
    return found if isinstance(found, list) else [found]


class Stack:
    """One stack that `recommend` has tried on one input."""

    def __init__(self, title, found):
        self.title, self.text, self.base = title, found["stack"], found["base"]
        self.real = re.sub(r"sim\(model=(\w+)\)", r"\1", found["model"])  # without its logs, which would record
        self.plain = found["model"].replace("sim(model=cuda)", "sim")
        self.said_bytes, self.said_ns = found["reserved_peak_bytes"], found["ns"]
        self.own_ns, self.driver = found["own_ns"], found["driver"]  # of what that is made
        self.bytes, self.ns, self.error = None, None, None
        self.times, self.turns = [], {}  # of all replays; the least of each turn

    def take(self, found, turn):
        reserved = reserved_by(found, self.base)
        if found["failures"]:
            self.fail(f"{found['failures']} refused: {found['first_failure']}")
            return
        self.bytes = max(reserved, self.bytes or 0)
        self.times.append(found["duration_ns"])
        self.turns[turn] = min(found["duration_ns"], self.turns.get(turn, found["duration_ns"]))
        self.ns = min(self.times)

    def fail(self, words):
        """What was measured in turns before counts no longer."""
        self.bytes, self.ns, self.error = None, None, words
        self.times, self.turns = [], {}

    def is_as_said(self):
        return abs(self.bytes - self.said_bytes) <= allowance(self.base)

    def is_in_time(self):
        return abs(self.ns / self.said_ns - 1) <= SAME_TIME

    def noise(self):
        """How much longer than the least time the second least is, as a share; None: there is one time."""
        return sorted(self.times)[1] / self.ns - 1 if len(self.times) > 1 else None

    def is_as_before(self):
        """Whether the first two turns, which are processes of their own, took the same time; None: there was one."""
        first, second = (*self.turns.values(), None, None)[:2]
        return abs(second / first - 1) <= SAME_TIME if second else None

    def row(self):
        said = f"| {self.title} | `{self.text.replace('|', chr(92) + '|')}` | {self.said_bytes / MIB:,.1f} |"
        if self.ns is None:
            return f"{said} | | {self.said_ns / 1e6:,.1f} | | {self.error or 'not replayed'} | |"
        noise = self.noise()
        return (f"{said} {self.bytes / MIB:,.1f} | {(self.bytes - self.said_bytes) / MIB:+,.2f} | "
                f"{self.said_ns / 1e6:,.1f} | {self.ns / 1e6:,.1f} | {self.ns / self.said_ns:.2f} | "
                f"{'' if noise is None else f'{noise:.0%}'} |")


def with_short_again(stacks):
    """The stacks, and behind them the short ones again, as often as a process takes them."""
    short = [stack for stack in stacks if stack.said_ns < SHORT_NS]
    return stacks + short * ((STACKS - len(stacks)) // len(short) if short else 0)


class Input:
    def __init__(self, path):
        self.path, self.title = path, os.path.basename(path).split(".")[0]
        self.stacks, self.error = [], None

    def choose(self, command, bases, each, seconds):
        """Take the best and the worst of the stacks over each base that serve all requests."""
        try:
            found = answer([*command, self.path], seconds)
        except Failed as error:
            self.error = str(error)
            say(f"{self.title}: recommend: {error}")
            return
        program = sum(traffic["duration_ns"] for traffic in found["inputs"])
        for base in bases:
            tried = [one for one in found["stacks"]
                     if one["base"] == base and one["error"] is None and one["failures"] == 0]
            tried.sort(key=lambda one: one["reserved_peak_bytes"] * (program + one["ns"]))
            chosen = tried if len(tried) <= 2 * each else tried[:each] + tried[-each:]
            self.stacks += [Stack(self.title, one) for one in chosen]
        self.ask_plain(command[0], seconds)

    def ask_plain(self, tidemark, seconds):
        """What `cuda` will be asked for."""
        stacks = [stack for stack in self.stacks if stack.base == "cuda"]
        try:
            found = replay_of(tidemark, [stack.plain for stack in stacks], self.path, seconds) if stacks else []
        except Failed as error:
            self.error = str(error)
            return
        for stack, one in zip(stacks, found):
            stack.said_bytes = reserved_by(one, "sim")


class Run:
    """Replays until the time is over."""

    def __init__(self, tidemark, inputs, options):
        self.tidemark, self.inputs, self.options = tidemark, inputs, options
        self.deadline = time.monotonic() + options["time"]
        self.device = None
        self.late = 0

    def left(self):
        return self.deadline - time.monotonic()

    def replay(self, source, stacks, turn):
        """Replay stacks in one process; where it fails, each in one of its own, so that it is known which one does."""
        stacks = with_short_again(stacks)
        predicted = sum(stack.said_ns for stack in stacks) / 1e9
        if predicted > self.left():
            self.late += len(set(stacks))
            return
        say(f"{source.title}, {stacks[0].base}: {len(stacks)} replays, predicted {predicted:.1f} s, "
            f"{self.left():.0f} s left")
        try:
            found = replay_of(self.tidemark, [stack.real for stack in stacks], source.path,
                              min(self.left(), SLOW * predicted + START))
        except Failed as error:
            say(f"{source.title}, {stacks[0].base}: {error}")
            apart = list(dict.fromkeys(stacks))
            if len(apart) == 1 and isinstance(error, Late):
                stacks[0].error = str(error)
            elif len(apart) == 1:
                stacks[0].fail(str(error))
            for stack in apart if len(apart) > 1 else []:
                self.replay(source, [stack], turn)
            return
        for stack, one in zip(stacks, found):
            if stack.error is None:
                stack.take(one, turn)

    def turn(self, number):
        """All stacks once, those of one base together, the other way round in each turn."""
        for source in self.inputs:
            for base in self.options["bases"]:
                stacks = [stack for stack in source.stacks if stack.base == base and stack.error is None]
                if stacks:
                    self.replay(source, stacks if number % 2 == 0 else stacks[::-1], number)
                self.write()

    def go(self):
        costs = self.options["costs"]
        if self.options["measure"]:
            costs = self.options["measure"]
            done = subprocess.run([self.tidemark, "devices", "--measure", "--output", costs], capture_output=True,
                                  text=True, check=False, timeout=min(self.left(), 90))
            if done.returncode != 0 or done.stderr:
                raise Failed("devices --measure: " + done.stderr.strip())
        command = [self.tidemark, "recommend", "--json", *(["--costs", costs] if costs else [])]
        for source in self.inputs:
            source.choose(command, self.options["bases"], self.options["each"], min(self.left(), 60))
        for number in range(self.options["turns"]):
            self.turn(number)

    def write(self):
        if self.options["json"]:
            with open(self.options["json"], "w", encoding="utf-8") as out:
                json.dump({"device": self.device, "stacks": [vars(one) for source in self.inputs
                                                             for one in source.stacks]}, out, indent=1)


def find_device(tidemark):
    """The name of the device; None after the reason why there is nothing to measure."""
    try:
        found = answer([tidemark, "devices", "--json"], 60)
    except Failed as error:
        found = {"reason": str(error), "devices": []}
    if found["devices"] and found["devices"][0]["error"] is None:
        return found["devices"][0]["name"]
    print(f"bench-recommend: skipped: {found['reason'] or found['devices'][0]['error']}")
    return None


def claim(words, count, right, wanted):
    """Print a line; returns 0, or 1 where the claim fails, or 3 where it is open."""
    state = "FAIL" if right < count else "PASS" if count == wanted and wanted > 0 else "OPEN"
    measured = "" if count == wanted else f", {wanted - count} of {wanted} not measured"
    print(f"{state} {words}: {right} of {count}{measured}")
    return {"PASS": 0, "FAIL": 1, "OPEN": 3}[state]


def claims_of(source, bases):
    """The claims for one input, as the set of their states."""
    states = set()
    for base in bases:
        stacks = [stack for stack in source.stacks if stack.base == base]
        done = [stack for stack in stacks if stack.ns is not None]
        refused = [stack for stack in stacks if stack.ns is None and stack.error]
        states.add(claim(f"{source.title}, {base}: reserved as predicted, {WITHIN[base]}", len(done) + len(refused),
                         sum(stack.is_as_said() for stack in done), len(stacks)))
    done = [stack for stack in source.stacks if stack.ns is not None]
    states.add(claim(f"{source.title}: time within a fifth of what was predicted", len(done),
                     sum(stack.is_in_time() for stack in done), len(source.stacks)))
    noises = sorted(stack.noise() for stack in done if stack.noise() is not None)
    if noises:
        print(f"     {source.title}: the second least time of a stack is {noises[len(noises) // 2]:.0%} above the least in "
              f"the median, {noises[-1]:.0%} at most")
    twice = [stack.is_as_before() for stack in done if stack.is_as_before() is not None]
    if twice:
        print(f"     {source.title}: the second turn is within a fifth of the first one for {sum(twice)} of {len(twice)}: no "
              "prediction can be expected to do better")
    pairs = [(stack.said_ns, stack.ns) for stack in done]
    order, clear = tau(pairs), tau(pairs, NEAR)
    state = "OPEN" if order is None or len(done) < len(source.stacks) else "PASS" if order >= LEAST_TAU else "FAIL"
    said = "not known" if order is None else f"tau {order:.2f}"
    if clear is not None:
        said += f"; {clear:.2f} where predictions are a tenth apart"
    print(f"{state} {source.title}: order by time, tau at least {LEAST_TAU}: {said}")
    return states | {{"PASS": 0, "FAIL": 1, "OPEN": 3}[state]}


def report(run):
    print(f"\n{run.device}\n\n| trace | stack | predicted MiB | reserved MiB | off | predicted ms | ms | of predicted | noise |")
    print("|" + " --- |" * 9)
    for source in run.inputs:
        for stack in source.stacks:
            print(stack.row())
    print()
    states = set()
    for source in run.inputs:
        if source.error:
            print(f"FAIL {source.title}: recommend: {source.error}")
            states.add(1)
        else:
            states |= claims_of(source, run.options["bases"])
    if run.late:
        print(f"{run.late} replays are left out: --time={run.options['time']:.0f} would be over")
    return 1 if 1 in states else max(states)


def number(name, text, least, most):
    try:
        value = float(text)
    except ValueError:
        value = least - 1
    if not least <= value <= most:
        sys.exit(wrong(f"--{name}={text}: a number from {least} to {most} is expected"))
    return value


def wrong(words):
    say(f"recommend.py: {words}")
    return 2


def read_options():
    options = {"costs": "", "measure": "", "bases": ",".join(BASES), "each": "3", "turns": "2", "time": "330",
               "json": ""}
    try:
        given, names = getopt.getopt(sys.argv[1:], "", [name + "=" for name in options])
    except getopt.GetoptError as error:
        sys.exit(wrong(error))
    options.update((name[2:], value) for name, value in given)
    options["bases"] = list(dict.fromkeys(options["bases"].split(",")))
    for base in options["bases"]:
        if base not in BASES:
            sys.exit(wrong(f"--bases: there is no '{base}'; there are {', '.join(BASES)}"))
    options["each"] = int(number("each", options["each"], 1, 8))
    options["turns"] = int(number("turns", options["turns"], 1, 100))
    options["time"] = number("time", options["time"], 1, 86400)
    if options["costs"] and options["measure"]:
        sys.exit(wrong("--costs and --measure exclude each other"))
    if len(names) < 2:
        sys.exit(wrong(__doc__.split("\n\n")[1] + "\nof what? Name traces or CSV files"))
    return options, names


def end(*_):
    raise Ended


def main():
    options, (tidemark, *names) = read_options()
    run = Run(tidemark, [Input(name) for name in names], options)
    run.device = find_device(tidemark)
    if run.device is None:
        return 0
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    try:
        run.go()
    except Failed as error:
        return wrong(error)
    except subprocess.TimeoutExpired:
        return wrong("devices --measure: no end after 90 s")
    except Ended:
        say("ended: what was measured until now follows")
    return report(run)


if __name__ == "__main__":
    sys.exit(main())
