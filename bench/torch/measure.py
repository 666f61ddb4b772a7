"""What real programs under PyTorch take of the device: with PyTorch's own allocator, and through stacks.

`make bench-torch TORCH_ARGS='--turns=5'` runs it. Every run has a process of its own (child.py); each turn runs every
workload in every configuration, in an order drawn at random. A table goes to stdout, everything measured to a file of
JSON, which is written again after each run.
"""
import argparse
import importlib.util
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import workloads

HERE = os.path.dirname(os.path.abspath(__file__))
STACKS = ('pool | driver', 'pool | vmm', 'log({trace}, cupti=off) | pool | vmm')
AIMS = ('both', 'memory', 'time')
RECORDED = 'pool | vmm'
MIB = 1 << 20

# The bars that the last lines of a report hold the figures against.
MOST_DEVICE = 1.03
MOST_TIME = {False: 1.00, True: 1.03}  # by whether the stack records a trace


def say(*words):
    print(*words, file=sys.stderr, flush=True)


class Configuration:
    """What serves PyTorch; `only`: in this workload alone."""

    def __init__(self, name, stack='', settings='', only=None):
        self.name, self.stack, self.settings, self.only = name, stack, settings, only

    def layers(self):
        """The texts of the layers, the top first."""
        layers, depth = [''], 0
        for letter in self.stack:
            depth += (letter in '({') - (letter in ')}')
            if letter == '|' and depth == 0:
                layers.append('')
            else:
                layers[-1] += letter
        return [layer.strip() for layer in layers]

    def text(self, trace, count):
        """The stack's text, with a layer above the base that counts what reaches it."""
        layers = self.layers()
        if self.stack and count:
            layers.insert(-1, 'statistics as bench_base')
        return ' | '.join(layers).replace('{trace}', trace)

    def model(self):
        """The stack over the model of its base, without a log; None where there is no model."""
        *above, base = self.layers()
        kind = base.split('(')[0].strip()
        if kind not in ('vmm', 'driver', 'cuda'):
            return None
        return ' | '.join([layer for layer in above if layer.split('(')[0].strip() != 'log'] + [f'sim(model={kind})'])


NATIVE = Configuration('native')
EXPANDABLE = Configuration('expandable_segments', settings='expandable_segments:True')


def positive(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


positive.__name__ = 'number from 1'


def not_negative(text):
    value = float(text)
    if not 0 <= value < 1e6:
        raise ValueError
    return value


not_negative.__name__ = 'number from 0'


def read_arguments():
    parser = argparse.ArgumentParser(prog='measure.py', description=__doc__.splitlines()[0], allow_abbrev=False)
    add = parser.add_argument
    add('--workloads', metavar='NAME,...', help='these alone, instead of all that --list marks with a star')
    add('--also', metavar='FILE', help='a Python file that registers more workloads (see workloads.py)')
    add('--list', action='store_true', help='print the workloads')
    add('--stack', metavar='TEXT', action='append', help='a stack instead of the default ones; again for more of '
        'them. {trace} stands for the path of a trace. Default: ' + ', '.join(f"'{text}'" for text in STACKS))
    add('--no-native', action='store_true', help="leave PyTorch's own allocator out")
    add('--no-expandable', action='store_true', help='leave its expandable segments out')
    add('--no-count', action='store_true', help='leave out the layer that counts what reaches the base')
    add('--turns', metavar='N', type=positive, default=1, help='runs of everything (1)')
    add('--steps', metavar='N', type=positive, help="steps of a run, instead of the workload's own number")
    add('--warmup', metavar='N', type=positive, default=5, help='steps at first whose time does not count (5)')
    add('--seed', metavar='N', type=int, help='of the order of the runs; drawn and printed by default')
    add('--shapes', metavar='N', type=int, default=1, help='seed of the shapes and weights, the same in all runs (1)')
    add('--sampler', metavar='MS', type=not_negative, default=0, help="look at the device's memory every so many "
        'milliseconds while steps run, too, which may cost them time (0: only after each step)')
    add('--ahead', metavar='N', type=positive, default=8, help='processes that import and prepare together (8)')
    add('--timeout', metavar='S', type=positive, default=180, help='seconds for one run (180)')
    add('--time', metavar='S', type=positive, help='begin no run later than after so many seconds')
    add('--traces', metavar='FOLDER', help='keep the traces of {trace} there')
    add('--predict', action='store_true', help='replay what {trace} has recorded through sim(model=...) for each '
        'stack, and print what that says would be reserved beside what was')
    add('--most-of-native', metavar='SHARE', type=not_negative, help="say PASS or FAIL for each stack and workload: "
        "FAIL, and status 1, where it has more of the device than this share of what PyTorch's own allocator has")
    add('--recommend', metavar='AIM', choices=AIMS, help='record each workload through the stack first, and measure '
        'what `tidemark recommend --for=AIM` makes of the trace beside it: ' + ', '.join(AIMS))
    add('--tidemark', metavar='FILE', default='./tidemark', help='the command, for --predict and --recommend '
        '(./tidemark)')
    add('--json', metavar='FILE', default='bench-torch.json', help='(bench-torch.json)')
    add('--library', metavar='FILE', required=True, help='libtidemark.so, which make bench-torch gives')
    add('--shim', metavar='FILE', required=True, help='the shim, likewise')
    arguments = parser.parse_args()
    check_arguments(parser, arguments)
    return arguments


def check_arguments(parser, arguments):
    """What one option alone does not show to be wrong."""
    if arguments.also:
        try:
            specification = importlib.util.spec_from_file_location('also', os.path.abspath(arguments.also))
            specification.loader.exec_module(importlib.util.module_from_spec(specification))
        except (OSError, AttributeError, ImportError, SyntaxError, ValueError, TypeError, NameError) as error:
            parser.error(f'--also={arguments.also}: {error}')
        arguments.also = os.path.abspath(arguments.also)
    known = workloads.REGISTRY
    if arguments.workloads is None:
        arguments.chosen = [name for name in known if known[name].chosen]
    else:
        arguments.chosen = list(dict.fromkeys(arguments.workloads.split(',')))
        for name in arguments.chosen:
            if name not in known:
                parser.error(f"--workloads: there is no '{name}'; there are {', '.join(known)}")
    for name in arguments.chosen:
        if (arguments.steps or known[name].steps) <= arguments.warmup:
            parser.error(f'--warmup={arguments.warmup} leaves no step of {name} to time')
    arguments.configurations = [] if arguments.no_native else [NATIVE]
    arguments.configurations += [] if arguments.no_expandable else [EXPANDABLE]
    stacks = arguments.stack or ((RECORDED,) if arguments.recommend else STACKS)
    arguments.configurations += [Configuration(text, text) for text in dict.fromkeys(stacks)]
    if arguments.recommend and (len(stacks) > 1 or '{trace}' in stacks[0]):
        parser.error('--recommend: one --stack without a {trace}, which it records itself')
    for name in ('library', 'shim'):
        path = os.path.abspath(getattr(arguments, name))
        if not os.path.exists(path):
            parser.error(f'--{name}: there is no {path}')
        setattr(arguments, name, path)
    if arguments.most_of_native is not None and arguments.no_native:
        parser.error('--most-of-native: there is no native run with --no-native')
    if arguments.predict and not any('{trace}' in configuration.stack for configuration in arguments.configurations):
        parser.error('--predict: no stack records a {trace}')
    if (arguments.predict or arguments.recommend) and not os.access(arguments.tidemark, os.X_OK):
        name = 'predict' if arguments.predict else 'recommend'
        parser.error(f'--{name}: there is no command {arguments.tidemark}; --tidemark=FILE names it')
    if arguments.traces:
        os.makedirs(arguments.traces, exist_ok=True)


def environment(configuration):
    """PyTorch as it comes, with the settings of the configuration alone, and nothing from the network."""
    ours = {key: value for key, value in os.environ.items()
            if key not in ('PYTORCH_CUDA_ALLOC_CONF', 'PYTORCH_ALLOC_CONF', 'TIDEMARK_STACK')}
    if configuration.settings:
        ours['PYTORCH_CUDA_ALLOC_CONF'] = configuration.settings
    ours.update(PYTHONDONTWRITEBYTECODE='1', HF_HUB_OFFLINE='1', TRANSFORMERS_OFFLINE='1')
    return ours


class Run:
    """A workload in a configuration: a process that prepares itself when the run is made."""

    def __init__(self, arguments, scratch, turn, workload, configuration):
        self.turn, self.workload, self.configuration, self.timeout = turn, workload, configuration, arguments.timeout
        words = ''.join(letter if letter.isalnum() else '-' for letter in configuration.name)
        self.trace = os.path.join(arguments.traces or scratch, f'{workload}.{words}.{turn}.db')
        self.errors = tempfile.TemporaryFile(mode='w+', dir=scratch)
        spec = {
            'workload': workload,
            'also': arguments.also,
            'stack': configuration.text(self.trace, not arguments.no_count),
            'expandable': configuration is EXPANDABLE,
            'steps': arguments.steps or workloads.REGISTRY[workload].steps,
            'warmup': arguments.warmup,
            'shapes': arguments.shapes,
            'sampler_us': int(arguments.sampler * 1000),
            'library': arguments.library,
            'shim': arguments.shim,
        }
        self.process = subprocess.Popen(
            [sys.executable, '-B', os.path.join(HERE, 'child.py'), json.dumps(spec)], env=environment(configuration),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.line = ''

    def read(self):
        """A line of the process; what has not come in time is no line."""
        timer = threading.Timer(self.timeout, self.process.kill)
        timer.start()
        self.line = self.process.stdout.readline()
        timer.cancel()

    def result(self):
        try:
            if self.line == 'ready\n':
                self.process.stdin.write('go\n')
                self.process.stdin.flush()
                self.read()
            self.process.stdin.close()
        except BrokenPipeError:  # it ended meanwhile, and its messages say why
            self.line = ''
        status = self.end()
        try:
            found = json.loads(self.line)
        except ValueError:
            self.errors.seek(0)
            last = (self.errors.read().strip().splitlines() or ['it said nothing'])[-1]
            why = f'killed after {self.timeout} s' if status == -9 else f'ended with status {status}'
            found = {'status': 'failed', 'reason': f'{why}: {last}'}
        self.errors.close()
        return {'turn': self.turn, 'workload': self.workload, 'configuration': self.configuration.name, **found}

    def end(self):
        try:
            return self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()

    def clean(self, keep):
        for tail in ('', '-wal', '-shm', '-rings'):
            if not keep and os.path.exists(self.trace + tail):
                os.remove(self.trace + tail)


def predict(arguments, trace):
    """What the base of each stack would reserve for the traffic of a trace, by the model of that base."""
    found = {}
    for configuration in arguments.configurations:
        text = configuration.stack and configuration.model()
        if not text:
            continue
        done = subprocess.run([arguments.tidemark, 'replay', '--json', '--stack', text, trace], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if done.returncode == 0:
            found[configuration.name] = json.loads(done.stdout)['layers'][-1]['reserved_peak_bytes']
        else:
            say(f'{text}: {done.stderr.strip()}')
    return found


def ask_recommend(arguments, trace):
    """What `tidemark recommend` makes of a trace: the recorded stack and the recommended one. None after a message."""
    done = subprocess.run([arguments.tidemark, 'recommend', '--json', '--for', arguments.recommend, trace],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        found = json.loads(done.stdout)
        return {'now': found['stacks'][found['now']], 'recommended': found['stacks'][found['recommended']],
                'now_is_recorded': found['now_is_recorded']}
    except (ValueError, TypeError):
        say(f'tidemark recommend: {done.stderr.strip()}')
        return None


def is_late(arguments, begun):
    return arguments.time and time.monotonic() - begun > arguments.time


def recommend(arguments, scratch, begun):
    """Record each workload through the stack, and add what is recommended for it to the configurations."""
    text = arguments.configurations[-1].stack
    recording = Configuration('log({trace}, cupti=off) | ' + text, 'log({trace}, cupti=off) | ' + text)
    arguments.recommended, arguments.not_recommended = {}, []
    plan = list(arguments.chosen)
    while plan and not is_late(arguments, begun):
        runs = [Run(arguments, scratch, 0, workload, recording) for workload in plan[:arguments.ahead]]
        plan = plan[arguments.ahead:]
        for run in runs:
            run.read()
        for run in runs:
            if is_late(arguments, begun):
                run.stop()
                plan.append(run.workload)
            else:
                recommend_for(arguments, text, run)
            run.clean(arguments.traces)
    for workload in plan:
        say(f'{workload} is not recorded: --time={arguments.time} is over')
    arguments.not_recommended += plan


def recommend_for(arguments, text, run):
    """Take the recording of a workload, and add what is recommended for it."""
    found = run.result()
    say(f'recording: {describe(found)}')
    said = ask_recommend(arguments, run.trace) if found['status'] == 'ok' else None
    if said is None:
        arguments.not_recommended.append(run.workload)
        return
    best = said['recommended']['stack'] if said['recommended'] != said['now'] else text
    arguments.recommended[run.workload] = {'stack': best, 'steps': len(found['steps']), **said}
    say(f'{run.workload}: recommended is {best}')
    if best != text:
        arguments.configurations.append(Configuration(best, best, only=run.workload))


def measure(arguments, scratch, after_each, begun):
    """All runs, some at a time prepared together and then measured one after the other."""
    order = random.Random(arguments.seed)
    cannot, results = {}, []
    plan = []
    for turn in range(1, arguments.turns + 1):
        pairs = [(turn, workload, configuration) for workload in arguments.chosen
                 for configuration in arguments.configurations if configuration.only in (None, workload)]
        order.shuffle(pairs)
        plan += pairs
    done, count = 0, len(plan)
    while plan:
        if is_late(arguments, begun):
            break
        batch = [Run(arguments, scratch, *pair) for pair in plan[:arguments.ahead] if pair[2].name not in cannot]
        done += len(plan[:arguments.ahead]) - len(batch)
        plan = plan[arguments.ahead:]
        for run in batch:
            run.read()
        for run in batch:
            done += 1
            if run.configuration.name in cannot or is_late(arguments, begun):
                run.stop()
                continue
            found = run.result()
            if arguments.predict and found['status'] == 'ok' and '{trace}' in run.configuration.stack:
                found['predicted'] = predict(arguments, run.trace)
            run.clean(arguments.traces)
            if found['status'] == 'skipped':
                cannot[found['configuration']] = found['reason']
            results.append(found)
            say(f'{done} of {count}: {describe(found)}')
            after_each(results)
    if is_late(arguments, begun):
        say(f'{count - len(results)} runs are left out: --time={arguments.time} is over')
    return results


def describe(found):
    words = f"{found['workload']}, {found['configuration']}: "
    if found['status'] != 'ok':
        return words + f"{found['status']}: {found['reason']}"
    return words + f"{found['device_bytes'] / MIB:.0f} MiB, {found['ms_step']:.1f} ms a step"


def rows_of(arguments, results):
    """A row of the table for each workload and configuration: medians over the turns, and the most of the device."""
    rows = []
    for workload in arguments.chosen:
        ok = [found for found in results if found['workload'] == workload and found['status'] == 'ok']
        native = {found['turn']: found for found in ok if found['configuration'] == NATIVE.name}
        outside = statistics.median(found['outside_bytes'] for found in native.values()) if native else None
        for configuration in arguments.configurations:
            runs = [found for found in ok if found['configuration'] == configuration.name]
            if runs and configuration.only in (None, workload):
                rows.append(row_of(workload, configuration, runs, native, outside))
    return rows


def row_of(workload, configuration, runs, native, outside):
    def middle(name):
        return statistics.median(found[name] for found in runs)

    live, device = middle('live_peak_bytes'), max(found['device_bytes'] for found in runs)
    floor = live + (middle('outside_bytes') if outside is None else outside)
    beside = [found['ms_step'] / native[found['turn']]['ms_step'] for found in runs if found['turn'] in native]
    return {
        'workload': workload,
        'configuration': configuration.name,
        'turns': len(runs),
        'live_peak_bytes': live,
        'outside_bytes': middle('outside_bytes'),
        'reserved_peak_bytes': max(found['reserved_peak_bytes'] for found in runs),
        'device_bytes': device,
        'of_floor': device / floor,
        'ms_step': middle('ms_step'),
        'ms_step_mean': middle('ms_step_mean'),
        'of_native': statistics.median(beside) if beside else None,
        'driver_calls': middle('driver_calls'),
        'driver_calls_step': middle('driver_calls_step'),
        'handles_step': middle('handles_step') if runs[0]['handles_step'] is not None else None,
        'waits': middle('waits') if runs[0]['waits'] is not None else None,
        'notes': sorted({note for found in runs for note in found['notes']}),
    }


def table(rows):
    print('| workload | configuration | live peak, MiB | base reserved | outside | device | of the floor | ms a step |'
          ' of native | mean ms | base calls | a step | handles a step | waits |')
    print('|' + ' --- |' * 14)
    for row in rows:
        def mib(name, row=row):
            return f'{row[name] / MIB:,.0f}'

        of_native = '' if row['of_native'] is None else f"{row['of_native']:.3f}"
        pages = '' if row['handles_step'] is None else f"{row['handles_step']:.2f}"
        waits = '' if row['waits'] is None else f"{row['waits']:,.0f}"
        print(f"| {row['workload']} | `{row['configuration'].replace('|', chr(92) + '|')}` | {mib('live_peak_bytes')} |"
              f" {mib('reserved_peak_bytes')} | {mib('outside_bytes')} | {mib('device_bytes')} |"
              f" {row['of_floor']:.3f} | {row['ms_step']:.2f} | {of_native} | {row['ms_step_mean']:.2f} |"
              f" {row['driver_calls']:,.0f} | {row['driver_calls_step']:.2f} | {pages} | {waits} |")


def prediction_rows(results, rows):
    """What replays predict to be reserved beside what was, where both are known: medians."""
    for row in rows:
        said = [found['predicted'][row['configuration']] for found in results
                if found['workload'] == row['workload'] and row['configuration'] in found.get('predicted', {})]
        if said and row['reserved_peak_bytes']:
            yield row['workload'], row['configuration'], statistics.median(said), row['reserved_peak_bytes']


def predictions(results, rows):
    print('\n| workload | stack | predicted, MiB | reserved | error |')
    print('|' + ' --- |' * 5)
    for workload, name, said, was in prediction_rows(results, rows):
        print(f"| {workload} | `{name.replace('|', chr(92) + '|')}` | {said / MIB:,.0f} | {was / MIB:,.0f} |"
              f' {100 * (said / was - 1):+.1f}% |')


def recommendation_rows(arguments, rows):
    """For each workload the recorded stack and the recommended one: what was predicted, and the row of the table."""
    for workload, said in arguments.recommended.items():
        found = {row['configuration']: row for row in rows if row['workload'] == workload}
        first = found.get(next(name.stack for name in arguments.configurations if name.stack))
        for name, trial in (('recorded', said['now']), ('recommended', said['recommended'])):
            row = first if name == 'recorded' else found.get(said['stack'])
            if row is None or first is None:
                say(f'{workload}: the {name} stack was not measured')
                continue
            # A stack takes its time of each step; what else a step does is known from the recorded stack alone.
            off = (trial['ns'] - said['now']['ns']) / said['steps'] / 1e6 if said['now_is_recorded'] else None
            yield name, trial['reserved_peak_bytes'], None if off is None else first['ms_step'] + off, row, first


def recommendations(arguments, rows):
    print('\n| workload | | stack | predicted MiB | reserved | error | device | predicted ms a step | ms a step |'
          ' of the recorded |')
    print('|' + ' --- |' * 10)
    for name, said, ms, row, first in recommendation_rows(arguments, rows):
        was = row['reserved_peak_bytes']
        error = f'{100 * (said / was - 1):+.1f}%' if was else ''
        print(f"| {row['workload']} | {name} | `{row['configuration'].replace('|', chr(92) + '|')}` | {said / MIB:,.0f} |"
              f" {was / MIB:,.0f} | {error} | {row['device_bytes'] / MIB:,.0f} | {'' if ms is None else f'{ms:.2f}'} |"
              f" {row['ms_step']:.2f} | {row['ms_step'] / first['ms_step']:.3f} |")
    print('\nThe recorded stack is measured without its log. A predicted step is one of that, and what the model says of'
          '\nboth stacks: calls of the driver, and their own time.')
    for workload in arguments.not_recommended:
        print(f'nothing is recommended for {workload}: the messages say why')


def bars(arguments, rows):
    """Each stack beside the bars, and beside PyTorch."""
    peers = {(row['workload'], row['configuration']): row for row in rows}
    for row in rows:
        name = row['configuration']
        if name in (NATIVE.name, EXPANDABLE.name):
            continue
        most = MOST_TIME['log' in name]
        said = [f"device {row['of_floor']:.3f} of the floor, at most {MOST_DEVICE:.2f}"]
        met = row['of_floor'] <= MOST_DEVICE
        for peer in (NATIVE.name, EXPANDABLE.name):
            other = peers.get((row['workload'], peer))
            if other:
                said.append(f"{row['device_bytes'] / other['device_bytes']:.3f} of {peer}")
                met = met and row['device_bytes'] < other['device_bytes']
        if row['of_native'] is not None:
            said.append(f"time {row['of_native']:.3f} of native, at most {most:.2f}")
            met = met and row['of_native'] <= most
        print(f"{'met' if met else 'not met'}: {row['workload']}, {name}: {'; '.join(said)}")


def judge(arguments, rows):
    """Each stack's share of the native run's device memory; whether all of them are at most what was asked for."""
    found = {(row['workload'], row['configuration']): row['device_bytes'] for row in rows}
    all_pass = True
    for workload in arguments.chosen:
        native = found.get((workload, NATIVE.name))
        for configuration in arguments.configurations:
            if not configuration.stack or configuration.only not in (None, workload):
                continue
            mine = found.get((workload, configuration.name))
            passes = bool(mine and native) and mine <= arguments.most_of_native * native
            all_pass = all_pass and passes
            said = f'{mine / MIB:,.0f} MiB of the device, native {native / MIB:,.0f} MiB, {mine / native:.3f} of it' \
                if mine and native else 'not measured'
            print(f"{'PASS' if passes else 'FAIL'}: {workload}, {configuration.name}: {said}")
    return all_pass


def report(arguments, results, machine):
    rows = rows_of(arguments, results)
    print(f"\n{machine['device']}, PyTorch {machine['torch']}; {arguments.turns} turns, seed {arguments.seed}, shapes "
          f'{arguments.shapes}\n')
    table(rows)
    print('\nThe floor is the live peak and what the native run shows outside of its reserved memory.')
    bars(arguments, rows)
    if arguments.predict:
        predictions(results, rows)
    if arguments.recommend:
        recommendations(arguments, rows)
    all_pass = arguments.most_of_native is None or judge(arguments, rows)
    for row in rows:
        for note in row['notes']:
            print(f"note: {row['workload']}, {row['configuration']}: {note}")
    failed = [found for found in results if found['status'] == 'failed']
    for found in failed + [found for found in results if found['status'] == 'skipped']:
        print(describe(found))
    return 1 if failed or not all_pass or arguments.recommend and arguments.not_recommended else 0


def find_machine():
    """The device and PyTorch's version, or why there is nothing to measure. Asked in a process of its own."""
    program = ("import json, torch\nok = torch.cuda.is_available()\n"
               "print(json.dumps({'torch': torch.__version__, 'cuda': torch.version.cuda,\n"
               "                  'device': torch.cuda.get_device_name(0) if ok else None}))")
    asked = subprocess.run([sys.executable, '-B', '-c', program], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                           text=True, env=environment(NATIVE))
    if asked.returncode != 0:
        return None, (asked.stderr.strip().splitlines() or ['python3 says nothing'])[-1]
    machine = json.loads(asked.stdout.strip().splitlines()[-1])
    return (machine, '') if machine['device'] else (None, 'PyTorch finds no GPU')


def main():
    arguments = read_arguments()
    if arguments.list:
        for entry in workloads.REGISTRY.values():
            print(f"{'*' if entry.chosen else ' '} {entry.name:16} {entry.says} ({entry.steps} steps)")
        return 0
    machine, why = find_machine()
    if machine is None:
        print(f'bench-torch: skipped: {why}')
        return 0
    if arguments.seed is None:
        arguments.seed = time.time_ns() % 1000000
    say(f'seed {arguments.seed}')
    begun = time.monotonic()

    def write(results):
        with open(arguments.json, 'w', encoding='utf-8') as out:
            json.dump({'machine': machine, 'seed': arguments.seed, 'shapes': arguments.shapes,
                       'recommended': arguments.recommended,
                       'rows': rows_of(arguments, results), 'runs': results}, out, indent=1)

    arguments.recommended = {}
    with tempfile.TemporaryDirectory() as scratch:
        if arguments.recommend:
            recommend(arguments, scratch, begun)
        results = measure(arguments, scratch, write, begun)
    return report(arguments, results, machine)


if __name__ == '__main__':
    sys.exit(main())
