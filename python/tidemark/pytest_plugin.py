"""pytest: the peak of GPU memory of each test, limits and leaks by markers, and a trace of each test.

    @pytest.mark.limit_gpu_memory("4 GB")                  # fails where the test's peak was higher
    @pytest.mark.limit_gpu_memory("4 GB", enforce=True)    # refuses what exceeds it, inside of the test
    @pytest.mark.limit_gpu_leaks("1 MB")                   # fails where the test leaves more behind

As in pytest-memray, 1 MB is 1024 * 1024 bytes. Markers always hold; `--tidemark` measures all tests.
"""
from __future__ import annotations

import contextlib
import gc
import hashlib
import importlib.util
import os
import re
import sys
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

import pytest

import tidemark
from tidemark._memory import size_text
from tidemark._use import MODES, count_of_uses, default_text, end_uses_above

_PEAK, _COUNT, _TRACE = 'gpu_peak_bytes', 'gpu_allocations', 'gpu_trace'
_UNITS = {'b': 0, 'kb': 1, 'kib': 1, 'mb': 2, 'mib': 2, 'gb': 3, 'gib': 3, 'tb': 4, 'tib': 4}
_SIZE = re.compile(r'\s*(\d+(?:\.\d+)?)\s*([KMGT]?i?B)\s*', re.ASCII | re.IGNORECASE)


def parse_size(text: Any) -> int:
    """Bytes of "24 MB", "1.5GiB" or a number; MB and MiB are both 1024 * 1024."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    match = _SIZE.fullmatch(text) if isinstance(text, str) else None
    if match is None or match.group(2).lower() not in _UNITS:
        raise ValueError(f'{text!r} is no size: expected one such as "24 MB", or a number of bytes')
    return int(float(match.group(1)) * 1024**_UNITS[match.group(2).lower()])


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup('tidemark', 'GPU memory, by Tidemark')
    group.addoption('--tidemark', action='store_true', default=False,
                    help='measure the GPU memory of each test, and list the highest peaks')
    group.addoption('--tidemark-trace', metavar='DIR', default=None,
                    help='record a trace of each test into this folder; implies --tidemark')
    group.addoption('--tidemark-stack', metavar='TEXT', default=None,
                    help='the stack that serves the tests; TIDEMARK_STACK, else that of the device, unless given')
    group.addoption('--tidemark-mode', choices=MODES, default='auto',
                    help='how PyTorch is led there; auto unless given')
    # pytest-memray has an option of this name, which then serves both.
    if importlib.util.find_spec('pytest_memray') is None:
        group.addoption('--most-allocations', metavar='N', type=int, default=None,
                        help='how many tests the list of the highest peaks has; 5 unless given, 0 for all')
    parser.addini('tidemark', 'measure the GPU memory of each test', type='bool', default=False)
    parser.addini('tidemark_trace', 'the folder of --tidemark-trace', default='')
    parser.addini('tidemark_stack', 'the stack that serves the tests', default='')
    parser.addini('most-allocations-gpu', 'as --most-allocations', default='')


def pytest_configure(config: Any) -> None:
    for line in ('limit_gpu_memory(size, enforce=False, device=None): fail the test whose peak of GPU memory is above; '
                 'with enforce=True refuse the allocation inside of it',
                 'limit_gpu_leaks(size, device=None): fail the test if it leaves more GPU memory allocated than that'):
        config.addinivalue_line('markers', line)
    most = config.getoption('most_allocations', None)
    if most is None:
        most = config.getini('most-allocations-gpu') or 5
    try:
        most = int(most)
    except ValueError:
        raise pytest.UsageError(f'most-allocations-gpu: {most!r} is no number') from None
    if most < 0:
        raise pytest.UsageError(f'--most-allocations={most}: expected 0 (all) or more')
    folder = config.getoption('tidemark_trace') or config.getini('tidemark_trace') or None
    wanted = bool(folder or config.getoption('tidemark') or config.getini('tidemark'))
    controller = _is_controller(config)
    if wanted or controller:
        config.pluginmanager.register(_Summary(most, wanted), 'tidemark-summary')
    if controller:
        return
    measure = _Measure(config, folder)
    config.pluginmanager.register(measure, 'tidemark-measure')
    if wanted:
        try:
            measure.begin()
        except (tidemark.Error, OSError) as failure:
            raise pytest.UsageError(f'--tidemark: {failure}') from None


def _is_controller(config: Any) -> bool:
    """Whether the tests run in other processes, by pytest-xdist."""
    return not hasattr(config, 'workerinput') and bool(config.getoption('numprocesses', None) or
                                                       config.getoption('tx', None))


class _Limits(NamedTuple):
    """What the markers of a test ask for."""

    peak: Optional[int] = None
    enforce: bool = False
    leaks: Optional[int] = None
    device: Any = None


def _limits(item: Any) -> _Limits:
    found = _Limits()
    marker = item.get_closest_marker('limit_gpu_memory')
    if marker is not None:
        size, named = _arguments(marker, ('enforce', 'device'))
        found = found._replace(peak=size, enforce=bool(named.get('enforce')), device=named.get('device'))
        if found.enforce and not size:
            raise ValueError('limit_gpu_memory: enforce=True needs a size above 0')
    marker = item.get_closest_marker('limit_gpu_leaks')
    if marker is not None:
        size, named = _arguments(marker, ('device',))
        found = found._replace(leaks=size, device=named.get('device', found.device))
    return found


def _arguments(marker: Any, known: Tuple[str, ...]) -> Tuple[int, Dict[str, Any]]:
    if len(marker.args) != 1 or set(marker.kwargs) - set(known):
        raise ValueError(f'{marker.name} takes a size, such as "24 MB", and {" and ".join(known)}')
    try:
        return parse_size(marker.args[0]), marker.kwargs
    except ValueError as failure:
        raise ValueError(f'{marker.name}: {failure}') from None


class _Seen(NamedTuple):
    """What a test has taken."""

    limits: _Limits
    peak: int
    allocations: int
    left: int
    held: List[tidemark.Live]
    trace: Optional[str]


class _Measure:
    def __init__(self, config: Any, folder: Optional[str]) -> None:
        self._stack = config.getoption('tidemark_stack') or config.getini('tidemark_stack') or None
        self._mode = config.getoption('tidemark_mode')
        self._folder = folder
        self._worker = getattr(config, 'workerinput', {}).get('workerid', '')
        self._use: Optional[tidemark.use] = None
        self._uses = 0  # that were open before
        self._failure: Optional[str] = None
        self._names: Dict[str, int] = {}
        self._seen: Dict[str, _Seen] = {}

    def begin(self) -> None:
        if self._use is not None:
            return
        if self._folder is not None:
            os.makedirs(self._folder, exist_ok=True)
        self._uses = count_of_uses()
        self._use = tidemark.use(self._stack, mode=self._mode)

    def pytest_collection_finish(self, session: Any) -> None:
        """Before the first test, which may use CUDA: a test with a marker is measured without --tidemark, too."""
        if any(item.get_closest_marker(name) for item in session.items
               for name in ('limit_gpu_memory', 'limit_gpu_leaks')):
            try:
                self.begin()
            except (tidemark.Error, OSError) as failure:
                self._failure = str(failure)

    def pytest_unconfigure(self, config: Any) -> None:
        if self._use is not None:
            end_uses_above(self._uses)
            self._use = None

    def pytest_runtest_setup(self, item: Any) -> None:
        try:
            limits = _limits(item)
        except ValueError as failure:
            pytest.fail(str(failure), pytrace=False)
        if self._failure is not None and limits != _Limits():
            pytest.fail(f'the GPU memory of this test cannot be measured: {self._failure}', pytrace=False)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        self._seen.pop(item.nodeid, None)
        if self._use is None:
            yield
            return
        limits = _limits(item)
        with contextlib.ExitStack() as around:
            trace = self._record(item, limits, around)
            measured = around.enter_context(tidemark.peak(limits.device))
            uses = count_of_uses()
            outcome = yield
            for left in end_uses_above(uses):
                item.add_report_section('call', 'tidemark', f'the test has left {left} open; it is ended')
            if limits.leaks is not None:
                gc.collect()
                self._empty_caches()
            held = tidemark.live(limits.device)
        if outcome.excinfo is not None and isinstance(outcome.excinfo[1], tidemark.OutOfMemoryError):
            item.add_report_section('call', 'tidemark', str(outcome.excinfo[1]))
        path = trace if trace is not None and os.path.exists(trace) else None
        seen = self._seen[item.nodeid] = _Seen(limits, measured.bytes, measured.count, measured.left, held, path)
        item.user_properties += [(_PEAK, measured.bytes), (_COUNT, measured.count)]
        if path is not None:
            item.user_properties.append((_TRACE, path))
        reasons = _reasons(seen) if outcome.excinfo is None else []
        if reasons:
            _fail(outcome, '\n'.join(reasons))

    def _record(self, item: Any, limits: _Limits, around: contextlib.ExitStack) -> Optional[str]:
        """Begin the trace of a test, and its limit; answers the trace's path."""
        refused = limits.peak if limits.enforce else None
        if self._folder is None:
            if refused is not None:
                around.enter_context(tidemark.use(f'limit({refused}) | {default_text(self._mode)}', mode=self._mode))
            return None
        path = os.path.join(self._folder, self._name(item.nodeid))
        pattern = path.replace('%', '%%')  # a folder's name is no pattern
        around.enter_context(_quietly(tidemark.trace(pattern, limit=refused, mode=self._mode, overwrite=True)))
        return path

    def _name(self, nodeid: str) -> str:
        """The name of a file for a test, another one for each."""
        name = re.sub(r'[^\w.\[\]=,+-]+', '-', nodeid, flags=re.ASCII).strip('-.')
        if len(name) > 150:
            name = f'{name[:130]}-{hashlib.sha256(nodeid.encode("utf-8", "replace")).hexdigest()[:12]}'
        if self._worker:
            name = f'{name}.{self._worker}'
        self._names[name] = self._names.get(name, 0) + 1
        return f'{name}.db' if self._names[name] == 1 else f'{name}.{self._names[name]}.db'

    @staticmethod
    def _empty_caches() -> None:
        torch = sys.modules.get('torch')
        cuda = getattr(torch, 'cuda', None)
        if cuda is not None and getattr(cuda, 'is_initialized', bool)():
            cuda.empty_cache()

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_makereport(self, item: Any, call: Any) -> Any:
        outcome: Any = yield
        report = outcome.get_result()
        seen = self._seen.pop(item.nodeid, None) if report.when == 'call' else None
        if seen is None:
            return
        if report.failed:
            report.sections.append(('tidemark', _details(seen)))


def _fail(outcome: Any, reason: str) -> None:
    """Have a test fail that has passed, as if it had raised: so xfail and --pdb see it."""
    failure = pytest.fail.Exception(reason, pytrace=False)
    if hasattr(outcome, 'force_exception'):  # pluggy 1.1
        outcome.force_exception(failure)
    else:
        outcome._excinfo = (type(failure), failure, failure.__traceback__)


@contextlib.contextmanager
def _quietly(trace: tidemark.trace) -> Iterator[None]:
    """A trace whose end does not warn of a test that allocated nothing."""
    import warnings

    trace.start()
    try:
        yield
    finally:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            trace.stop()


def _reasons(seen: _Seen) -> List[str]:
    """Why a test that passed fails after all."""
    reasons = []
    limits = seen.limits
    if limits.peak is not None and seen.peak > limits.peak:
        reasons.append(f'the test was limited to {size_text(limits.peak)} of GPU memory, and its peak was '
                       f'{size_text(seen.peak)}, {size_text(seen.peak - limits.peak)} more')
    if limits.leaks is not None and seen.left > limits.leaks:
        reasons.append(f'the test was allowed to leave {size_text(limits.leaks)} of GPU memory behind, and left '
                       f'{size_text(seen.left)}')
    return reasons


def _details(seen: _Seen) -> str:
    lines = [f'peak {size_text(seen.peak)} in {seen.allocations} allocations, {size_text(max(seen.left, 0))} left']
    for entry in seen.held[:5]:
        lines.append(f'{size_text(entry.bytes)} in {entry.count} live under {entry.tag or "no tag"}')
    if seen.trace is not None:
        lines.append(f'trace: {seen.trace} (tidemark peak {seen.trace})')
    return '\n'.join(lines)


class _Row(NamedTuple):
    peak: int
    nodeid: str
    allocations: int
    trace: Optional[str]


class _Summary:
    def __init__(self, most: int, wanted: bool) -> None:
        self._most, self._wanted = most, wanted
        self._rows: List[_Row] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        named = dict(report.user_properties)
        if report.when == 'call' and _PEAK in named:
            self._rows.append(_Row(named[_PEAK], report.nodeid, named.get(_COUNT, 0), named.get(_TRACE)))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        if not self._wanted or not self._rows:
            return
        out = terminalreporter
        out.write_sep('=', 'tidemark: highest peaks of GPU memory')
        rows = [row for row in sorted(self._rows, key=lambda row: (-row.peak, row.nodeid)) if row.peak]
        shown = rows[:self._most] if self._most else rows
        width = max((len(size_text(row.peak)) for row in shown), default=0)
        for row in shown:
            trace = f'  {row.trace}' if row.trace else ''
            out.write_line(f'{size_text(row.peak):>{width}}  {row.nodeid}  ({row.allocations} allocations){trace}')
        if len(rows) > len(shown):
            out.write_line(f'{len(rows) - len(shown)} more tests allocated')
        if not rows:
            out.write_line('no test allocated GPU memory through Tidemark')
        torch = sys.modules.get('tidemark.torch')
        if torch is not None and torch.is_native():
            out.write_line('PyTorch had used CUDA before its allocator could be exchanged: these are segments of its '
                           'cache, not tensors')
