"""Checks exports against the rules of their formats. Usage: formats.py FORMAT FILE; prints what is wrong, or "valid"."""
import gzip
import json
import sys
from collections import defaultdict

wrong = []


def expect(good, *what):
    if not good and len(wrong) < 10:
        wrong.append(' '.join(str(word) for word in what))


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


# The trace event format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU

def check_metadata(event, seen):
    key = event['name'], event['pid'], event.get('tid')
    expect(event['name'] in ('process_name', 'thread_name'), 'metadata', event)
    expect(isinstance(event['args'].get('name'), str), 'a name that is no text', event)
    expect(key not in seen, 'named twice', event)
    seen.add(key)


def check_counter(event, series):
    args = event['args']
    expect(args and all(is_number(value) and value >= 0 for value in args.values()), 'counter', event)
    expect(series.setdefault((event['pid'], event['name']), set(args)) == set(args), 'other series', event)


def check_asyncs(asyncs):
    for key, events in asyncs.items():
        phases = ''.join(event['ph'] for event in events)
        expect(phases in ('b', 'be'), 'async', key, phases)
        expect(len({event['name'] for event in events}) == 1, 'two names', key)
        expect(events[-1]['ts'] >= events[0]['ts'], 'ends before it begins', key)


def check_slices(slices):
    """Complete events of one thread nest: importers drop or cut what overlaps."""
    for thread, events in slices.items():
        ends = []
        for event in sorted(events, key=lambda event: (event['ts'], -event['dur'])):
            while ends and ends[-1] <= event['ts']:
                ends.pop()
            # Times are microseconds with three decimals: less than half a nanosecond is nothing.
            end = event['ts'] + event['dur']
            expect(not ends or end <= ends[-1] + 0.0005, 'slices overlap on thread', thread, event)
            ends.append(end)


def check_chrome(text):
    trace = json.loads(text)
    seen, series, asyncs, slices = set(), {}, defaultdict(list), defaultdict(list)
    expect(trace['displayTimeUnit'] in ('ms', 'ns'), 'unit')
    for event in trace['traceEvents']:
        expect(isinstance(event['name'], str), 'name', event)
        expect(is_number(event['ts']), 'ts', event)
        expect(all(isinstance(event.get(key, 0), int) for key in ('pid', 'tid')), 'pid or tid', event)
        expect(0 <= event.get('tid', 0) < 2 ** 32, 'tid', event)
        expect(event['ph'] in ('M', 'C') or 'tid' in event, 'no tid', event)
        expect(isinstance(event.get('args', {}), dict), 'args', event)
        if event['ph'] == 'M':
            check_metadata(event, seen)
        elif event['ph'] == 'C':
            check_counter(event, series)
        elif event['ph'] == 'X':
            expect(is_number(event['dur']) and event['dur'] >= 0, 'dur', event)
            slices[event['pid'], event['tid']].append(event)
        elif event['ph'] in 'be':
            expect(isinstance(event['cat'], str), 'cat', event)
            asyncs[event['cat'], event['id']].append(event)
        elif event['ph'] == 'i':
            expect(event['s'] in ('g', 'p', 't'), 'scope', event)
        else:
            expect(False, 'phase', event)
    check_asyncs(asyncs)
    check_slices(slices)


# speedscope: https://www.speedscope.app/file-format-schema.json

def check_speedscope(text):
    file = json.loads(text)
    frames = file['shared']['frames']
    expect(file['$schema'] == 'https://www.speedscope.app/file-format-schema.json', 'schema')
    expect(isinstance(file['exporter'], str), 'exporter')
    expect(0 <= file['activeProfileIndex'] < len(file['profiles']), 'active profile')
    for frame in frames:
        expect(isinstance(frame['name'], str) and frame['name'], 'name', frame)
        expect(isinstance(frame.get('file', ''), str), 'file', frame)
        expect(isinstance(frame.get('line', 1), int), 'line', frame)
        expect(set(frame) <= {'name', 'file', 'line', 'col'}, 'a field that frames have not', frame)
    for profile in file['profiles']:
        expect(set(profile) == {'type', 'name', 'unit', 'startValue', 'endValue', 'samples', 'weights'}, profile['name'])
        expect(profile['type'] == 'sampled' and isinstance(profile['name'], str), 'type')
        expect(profile['unit'] in ('none', 'nanoseconds', 'microseconds', 'milliseconds', 'seconds', 'bytes'), 'unit')
        expect(len(profile['samples']) == len(profile['weights']), 'as many weights as samples')
        expect(all(sample and all(0 <= frame < len(frames) for frame in sample) for sample in profile['samples']),
               'a frame that is not there')
        expect(all(weight > 0 for weight in profile['weights']), 'weights')
        expect(sum(profile['weights']) == profile['endValue'] - profile['startValue'], 'the sum of the weights')


# pprof: https://github.com/google/pprof/blob/main/proto/profile.proto

def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def fields(data):
    message = defaultdict(list)
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        expect(key & 7 in (0, 2), 'wire type', key & 7)
        value, at = varint(data, at)
        if key & 7 == 2:
            expect(at + value <= len(data), 'length')
            value, at = data[at:at + value], at + value
        message[key >> 3].append(value)
    return message


def numbers(parts):
    """A repeated number: packed, each in a field of its own, or both."""
    for part in parts:
        at = 0
        if isinstance(part, int):
            yield part
            continue
        while at < len(part):
            value, at = varint(part, at)
            yield value


def check_pprof(data):
    profile = fields(gzip.decompress(data))
    strings = [text.decode() for text in profile[6]]
    types = [fields(message) for message in profile[1]]
    functions = [fields(message) for message in profile[5]]
    locations = [fields(message) for message in profile[4]]
    expect(set(profile) <= set(range(1, 16)), 'fields', sorted(profile))
    expect(strings[0] == '', 'the first string is not empty')
    for group in functions, locations:
        ids = [message[1][0] for message in group]
        expect(0 not in ids and len(ids) == len(set(ids)), 'ids', ids)
    function_ids = {message[1][0] for message in functions}
    location_ids = {message[1][0] for message in locations}
    for message in functions:
        expect(all(message[key][0] < len(strings) for key in (2, 3, 4)), 'a string that is not there')
        expect(strings[message[2][0]], 'a function without a name')
    for message in locations:
        expect(all(fields(line)[1][0] in function_ids for line in message[4]), 'a function that is not there')
    for message in types:
        expect(strings[message[2][0]] in ('count', 'bytes'), 'unit')
    for message in profile[2]:
        sample = fields(message)
        stack = list(numbers(sample[1]))
        expect(stack and set(stack) <= location_ids, 'a location that is not there', stack)
        expect(len(list(numbers(sample[2]))) == len(types), 'as many values as types')
    expect(profile[14][0] in [message[1][0] for message in types], 'the type shown first is none')


def check_collapsed(text):
    for line in text.splitlines():
        stack, _, count = line.rpartition(' ')
        expect(count.isdigit() and int(count) > 0, 'count', line)
        expect(all(stack.split(';')), 'a frame without a name', line)


checks = {'chrome': check_chrome, 'speedscope': check_speedscope, 'pprof': check_pprof, 'collapsed': check_collapsed}
with open(sys.argv[2], 'rb') as file:
    content = file.read()
checks[sys.argv[1]](content if sys.argv[1] == 'pprof' else content.decode())
print('\n'.join(wrong) or 'valid')
