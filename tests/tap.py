"""TAP for tests in Python: the functions of tests/tap.h under the same names."""
import sys
import traceback

_planned = _run = _failed = 0


def plan(count):
    global _planned
    _planned = count
    print(f'1..{count}', flush=True)


def ok(passed, sentence):
    global _run, _failed
    _run += 1
    _failed += not passed
    print(f"{'ok' if passed else 'not ok'} {_run} - {sentence}", flush=True)
    return passed


def diag(*words):
    for line in ' '.join(str(word) for word in words).splitlines():
        print(f'# {line}', flush=True)


def is_(seen, wanted, sentence):
    if not ok(seen == wanted, sentence):
        diag(f'seen {seen!r}, wanted {wanted!r}')


def raises(kind, words, function, sentence):
    """Whether the call raises an exception of this kind with these words in its text."""
    try:
        result = function()
    except BaseException as failure:
        if not ok(isinstance(failure, kind) and words in str(failure), sentence):
            diag(''.join(traceback.format_exception(type(failure), failure, failure.__traceback__)))
        return failure
    ok(False, sentence)
    diag(f'no exception, but {result!r}')
    return None


def done_testing():
    if _run != _planned:
        diag(f'{_planned} tests were planned, {_run} have run')
    sys.exit(_failed > 0 or _run != _planned)
