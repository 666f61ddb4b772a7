"""
Compares `tidemark report --json` with a model that goes through the rows of the trace, as doc/report.md describes it.

    report-model.py TIDEMARK model TRACE [OPTION...]   every bucket, series, cell, instant and life
    report-model.py TIDEMARK commands TRACE [OPTION...] the answers in it, with those of the commands
    report-model.py TIDEMARK page TRACE [OPTION...]     the page, with the same data as JSON
    report-model.py TIDEMARK WHAT,WHAT TRACE [OPTION...] several of them, of one reading of the data
    report-model.py TIDEMARK random TRACE SEED          makes a random trace over an empty one, for the others

Prints what differs, or "equal". The options are those that select allocations: --from=, --to= (ns), --tag=, --detail=.
"""
import base64
import functools
import html.parser
import json
import random
import sqlite3
import subprocess
import sys
import zlib

DETAILS = {'small': (16384, 1024, 256, 512, 256, 30000), 'normal': (65536, 4096, 512, 1024, 1024, 120000),
           'full': (262144, 8192, 1024, 4096, 4096, 800000)}
problems = []


def differs(what, seen, wanted):
    if seen != wanted and len(problems) < 12:
        problems.append(f'{what}: seen {str(seen)[:300]}, wanted {str(wanted)[:300]}')


@functools.cache
def run(*arguments):
    result = subprocess.run([tidemark, *arguments], capture_output=True)
    if result.returncode not in (0, 1, 3):
        raise SystemExit(f'tidemark {" ".join(arguments)}: {result.returncode}: {result.stderr.decode()[:500]}')
    return result.stdout


class Life:
    """A row, cut off at the selected time."""

    def __init__(self, row, start, stop):
        (self.id, self.layer, self.address, self.size, self.status, self.begin, self.end, self.thread, self.stream,
         self.tag, self.stack) = row
        self.tag, self.stack, self.stream = self.tag or 0, self.stack or 0, self.stream or 0
        self.thread = self.thread or 0
        self.address &= 2 ** 64 - 1
        if self.status:
            self.end = None
        elif self.end is not None:
            self.end = max(self.end, self.begin)
        self.taken = self.begin <= stop and (self.begin >= start if self.status
                                             else self.end is None or self.end >= start)
        if self.end is not None and self.end > stop:
            self.end = None
        self.clipped = self.begin < start
        self.begin = max(self.begin, start)


class Model:
    def __init__(self, trace, options):
        self.db = sqlite3.connect(trace)
        self.db.text_factory = lambda text: text.decode(errors='replace')
        start, stop = int(options.get('from', -2 ** 63)), int(options.get('to', 2 ** 63 - 1))
        layers = dict(self.db.execute('SELECT layer_id, kind FROM layer'))
        inner = {below for (below,) in self.db.execute(
            "WITH RECURSIVE below(layer_id) AS (SELECT upstream_layer_id FROM layer WHERE kind = 'log'"
            " UNION SELECT layer.upstream_layer_id FROM layer JOIN below USING(layer_id))"
            " SELECT layer_id FROM below WHERE layer_id IS NOT NULL")}
        logs = {layer for layer, kind in layers.items() if kind == 'log' and layer not in inner}
        self.paths = {0: '(none)'}
        for tag, parent, name in self.db.execute('SELECT tag_id, parent_tag_id, name FROM tag ORDER BY tag_id'):
            self.paths[tag] = f'{self.paths[parent]}/{name}' if parent else name
        rows = self.db.execute('SELECT allocation_id, layer_id, address, size, status, alloc_ns, free_ns,'
                               ' alloc_thread_id, alloc_stream_id, tag_id, callstack_id FROM allocation'
                               ' ORDER BY alloc_ns, allocation_id')
        lives = [Life(row, start, stop) for row in rows]
        lives = [life for life in lives if life.layer in logs and life.taken]
        if 'tag' in options:
            lives = [life for life in lives
                     if f"{self.paths[life.tag]}/".startswith(f"{options['tag']}/") and life.tag]
        self.lives = [life for life in lives if not life.status]
        # At equal times allocations come first. A failure is at the place of an allocation.
        moments = [(life.begin, 0, life.id, life) for life in lives]
        moments += [(life.end, 1, life.id, life) for life in self.lives if life.end is not None]
        moments.sort(key=lambda moment: moment[:3])
        self.moments = []
        self.events = 0
        for ns, is_free, _, life in moments:
            self.moments.append((ns, is_free, life, self.events))
            self.events += not life.status
        self.start, self.stop = start, stop
        self.walked = self.walk()

    def axis(self, last, first, most):
        shift = 0
        while (last - first) >> shift >= most:
            shift += 1
        return first, 1 << shift, ((last - first) >> shift) + 1

    def walk(self):
        """Each event: its time, its number, the life, whether it ends, and the live bytes after it."""
        live, walked = 0, []
        for ns, is_free, life, event in self.moments:
            if life.status:
                continue
            live += -life.size if is_free else life.size
            walked.append((ns, event, life, is_free, live))
        return walked

    def buckets(self, by_time, most):
        positions = [ns for ns, _, _, _ in self.moments] if by_time else list(range(self.events))
        if not positions or (not by_time and not self.events):
            return (0, 1, 0), [], [], []
        begin, width, count = self.axis(positions[-1], positions[0], most)
        least, high, events = [None] * count, [None] * count, [0] * count
        live, at = 0, 0
        least[0] = high[0] = 0
        for ns, event, life, is_free, after in self.walked:
            bucket = ((ns if by_time else event) - begin) // width
            while at < bucket:
                at += 1
                least[at] = high[at] = live
            live = after
            if by_time and life.clipped and not is_free:
                least[at] = live
            least[at], high[at], events[at] = min(least[at], live), max(high[at], live), events[at] + 1
        while at + 1 < count:
            at += 1
            least[at] = high[at] = live
        return (begin, width, count), least, high, events


def check_buckets(model, seen, by_time, most):
    what = 'time' if by_time else 'by_event'
    (begin, width, count), least, high, events = model.buckets(by_time, most)
    differs(f'{what}: rows', seen[what]['rows'], count)
    if count:
        differs(f'{what}: begin, width', (seen[what]['begin'], seen[what]['width']), (begin, width))
    values = seen[what]['values']
    differs(f'{what}: least', values['least'], least)
    differs(f'{what}: most', [a + b for a, b in zip(values['least'], values['spread'])], high)
    if by_time:
        differs(f'{what}: events', values['events'], events)


@functools.cache
def frame_of(model, stack):
    row = model.db.execute('SELECT function, file, line, frame.address FROM callstack JOIN frame USING(frame_id)'
                           ' WHERE callstack_id = ? ORDER BY position LIMIT 1', (stack,)).fetchone()
    return ('none', stack) if row is None else row[:3]


def check_series(model, seen, most):
    keys = {
        'size': lambda life: life.size.bit_length(),
        'tag': lambda life: model.paths[life.tag],
        'thread': lambda life: life.thread,
        'stream': lambda life: life.stream,
        'frame': lambda life: frame_of(model, life.stack),
        'layer': lambda life: life.layer,
    }
    wanted = {}
    for key, group_of in keys.items():
        live, peaks = {}, {}
        for _, _, life, is_free, _ in model.walked:
            group = group_of(life)
            live[group] = live.get(group, 0) + (-life.size if is_free else life.size)
            peaks[group] = max(peaks.get(group, 0), live[group])
        if len(peaks) > 1 or (key == 'size' and peaks):
            wanted[key] = sorted(peaks, key=lambda group: -peaks[group])
            differs(f'groups {key}: peaks', [series['peak_bytes'] for series in seen['groups'][key]['series']],
                    [peaks[group] for group in wanted[key][:15]] + [None] * (len(peaks) > 15))
            differs(f'groups {key}: count', seen['groups'][key]['count'], len(peaks))
    differs('groups', sorted(seen['groups']), sorted(wanted))
    # Each name says its series.
    lists = {'tag': 'tags', 'thread': 'threads', 'stream': 'streams', 'frame': 'stacks', 'layer': 'layers'}
    id_of = {'tag': lambda life: life.tag, 'frame': lambda life: life.stack}
    for key, names in lists.items():
        series = {group: min(place, 15) for place, group in enumerate(wanted.get(key, []))}
        places = {id_of.get(key, keys[key])(life): series[keys[key](life)] for life in model.lives} if series else {}
        if key == 'frame' and series:  # one that no life has may begin in a frame that others have
            places.update((row['id'], series[frame_of(model, row['id'])])
                          for row in seen['names'][names] if frame_of(model, row['id']) in series)
        differs(f'names {names}: series', [row['series'] for row in seen['names'][names]],
                [places.get(row['id']) for row in seen['names'][names]])
    for key, order in wanted.items():
        series = {group: min(place, 15) for place, group in enumerate(order)}
        series_of = [series[keys[key](life)] for _, _, life, _, _ in model.walked]
        for axis in ('time', 'by_event'):
            board = seen['groups'][key][axis]
            last, first = ((model.moments[-1][0], model.moments[0][0]) if axis == 'time' else (model.events - 1, 0))
            begin, width, count = model.axis(last, first, most)
            differs(f'groups {key} {axis}', (board['begin'], board['width'], board['rows']), (begin, width, count))
            sums, at, live = [[0] * min(len(order), 16)], 0, [0] * min(len(order), 16)
            high = 0
            for (ns, event, life, is_free, after), place in zip(model.walked, series_of):
                bucket = ((ns if axis == 'time' else event) - begin) // width
                while at < bucket:
                    at += 1
                    sums.append(list(live))
                    high = sum(live)
                live[place] += -life.size if is_free else life.size
                if after > high:
                    high = after
                    sums[at] = list(live)
            while at + 1 < count:
                at += 1
                sums.append(list(live))
            got = [list(row) for row in zip(*(board['values'][f's{i}'] for i in range(len(live))))]
            differs(f'groups {key} {axis}: sums', got, sums)


def check_sizes_by_lifetimes(model, seen):
    """The classes are those of `tidemark histogram`: digits of the lifetime, binary digits of the size."""
    cells = {}
    for life in model.lives:
        lived = 20 if life.end is None else min(19, len(str(life.end - life.begin).lstrip('0')))
        cell = cells.setdefault((life.size.bit_length(), lived), [0, 0])
        cell[0] += 1
        cell[1] += life.size
    values = seen['sizes_by_lifetimes']['values']
    differs('sizes_by_lifetimes', list(zip(*(values[name] for name in ('size', 'lived', 'allocations', 'bytes')))),
            [(*place, *cells[place]) for place in sorted(cells)])


def check_map(model, seen, most_rows, most):
    shift = 12
    lives = [life for life in model.lives if life.size]
    if not lives:
        differs('map', seen['map'], None)
        return
    while True:
        pages, too_many = set(), False
        for life in lives:
            first, last = life.address >> shift, (life.address + life.size - 1) >> shift
            if last - first >= most_rows:
                too_many = True
                break
            pages.update(range(first, last + 1))
        if not too_many and len(pages) <= most_rows:
            break
        shift += 1
    rows = sorted(pages)
    differs('map: page_bytes', seen['map']['page_bytes'], 1 << shift)
    differs('map: row_address', seen['map']['row_address'], [hex(row << shift) for row in rows])
    place = {row: i for i, row in enumerate(rows)}
    for axis in ('time', 'by_event'):
        board = seen['map'][axis]
        last, first = (model.moments[-1][0], model.moments[0][0]) if axis == 'time' else (model.events - 1, 0)
        begin, width, count = model.axis(last, first, most)
        differs(f'map {axis}', (board['begin'], board['width'], board['buckets']), (begin, width, count))
        live, cells, at, most_of = [0] * len(rows), [[] for _ in rows], 0, [0] * len(rows)

        def close():
            for i, bytes_ in enumerate(most_of):
                cells[i].append(0 if not bytes_ else 15 if bytes_ >= 1 << shift else 1 + (14 * bytes_ >> shift))
            return list(live)
        for ns, event, life, is_free, _ in model.walked:
            bucket = ((ns if axis == 'time' else event) - begin) // width
            while at < bucket:
                at += 1
                most_of = close()
            begin_at, end = life.address, life.address + life.size
            while begin_at < end:
                page = begin_at >> shift
                part = min(end, (page + 1) << shift) - begin_at
                live[place[page]] += -part if is_free else part
                most_of[place[page]] = max(most_of[place[page]], live[place[page]])
                begin_at += part
        while at < count:
            at += 1
            most_of = close()
        flat = [cell for row in cells for cell in row]
        differs(f'map {axis}: cells', board['values']['share'], flat)


def check_kept(seen, i, by_id, seen_there, there):
    """Of the lives at an instant the largest are there, and all from its least size on."""
    ns, least = (seen['anchors']['values'][name][i] for name in ('ns', 'least_bytes'))
    wanted = seen['lives']['largest_count'] or len(there)
    if seen_there == there:
        differs(f'anchor {ns}: least_bytes', least, 0)
        return
    differs(f'anchor {ns}: lives that are none', seen_there - there, set())
    differs(f'anchor {ns}: large lives that lack', [one for one in there - seen_there if by_id[one].size >= least], [])
    differs(f'anchor {ns}: the largest', *(sorted((by_id[one].size for one in lives), reverse=True)[:wanted]
                                           for lives in (seen_there, there)))
    differs('lives: least_bytes', max(least, seen['lives']['least_bytes']), seen['lives']['least_bytes'])


def check_anchors(model, seen, detail):
    anchors, lives = seen['anchors']['values'], seen['lives']['values']
    differs('lives: rows', max(len(lives['size']), detail[5]), detail[5])
    if len(anchors['ns']) > max(detail[4], 1400):
        differs('anchors: rows', len(anchors['ns']), detail[4])
    differs('anchors: in order', anchors['ns'], sorted(set(anchors['ns'])))
    names = seen['names']
    by_id = {life.id: life for life in model.lives}
    for i, allocation in enumerate(lives['allocation_id']):
        life = by_id[allocation]
        differs(f'life {allocation}', (
            lives['alloc_ns'][i], lives['lived'][i], lives['size'][i], lives['address_high'][i] << 32 |
            lives['address_low'][i], names['tags'][lives['tag'][i]]['id'], names['stacks'][lives['stack'][i]]['id'],
            names['threads'][lives['thread'][i]]['id'], names['streams'][lives['stream'][i]]['id'],
            names['layers'][lives['layer'][i]]['id']), (
            life.begin, 0 if life.end is None else life.end - life.begin + 1, life.size, life.address, life.tag,
            life.stack, life.thread, life.stream, life.layer))
    if not anchors['ns']:
        return
    events = sorted((ns, is_free, life) for ns, is_free, life in
                    ((ns, is_free, life.size) for ns, _, life, is_free, _ in model.walked))
    at, live, count = 0, 0, 0
    exact = seen['lives']['least_bytes'] == 0
    kept = list(zip(lives['alloc_ns'], lives['lived'], lives['size'], lives['allocation_id']))
    for i, ns in enumerate(anchors['ns']):
        while at < len(events) and (events[at][0] < ns or (events[at][0] == ns and not events[at][1])):
            size = events[at][2]
            live += -size if events[at][1] else size
            count += (-1 if events[at][1] else 1) * (size > 0)
            at += 1
        differs(f'anchor {ns}', (anchors['event'][i], anchors['bytes'][i], anchors['count'][i]), (at, live, count))
        if i % max(1, len(anchors['ns']) // 60) == 0:
            there = {life.id for life in model.lives
                     if life.size and life.begin <= ns and (life.end is None or life.end >= ns)}
            seen_there = {allocation for begin, lived, _, allocation in kept
                          if begin <= ns and (not lived or ns < begin + lived)}
            check_kept(seen, i, by_id, seen_there, there)
            differs(f'anchor {ns}: kept', (anchors['kept_count'][i], anchors['kept_bytes'][i]),
                    (len(seen_there), sum(by_id[one].size for one in seen_there)))
    # The reasons.
    why = dict(zip(anchors['ns'], anchors['why']))
    if seen['peak'] and exact:
        differs('anchors: the peak', why.get(seen['peak']['ns'], 0) & 1, 1)
        differs('anchors: the end', why.get(seen['end_ns'], 0) & 32, 32)
        if len(anchors['ns']) == detail[4]:
            differs('anchors: summits', [summit['ns'] for summit in seen['summits']
                                         if not why.get(summit['ns'], 0) & 2], [])


def check_lists(model, seen):
    failures = [(ns, event, life) for ns, _, life, event in model.moments if life.status]
    values = seen['failures']['values']
    differs('failures', list(zip(values['ns'], values['event'], values['allocation_id'], values['size'],
                                 values['status'])),
            [(ns, event, life.id, life.size, life.status) for ns, event, life in failures[:10000]])
    differs('failures_count', seen['failures_count'], len(failures))
    marks = list(model.db.execute("SELECT ns, kind, text FROM mark WHERE ns BETWEEN ? AND ? ORDER BY ns, rowid",
                                  (model.start, model.stop)))
    differs('marks_count', seen['marks_count'], len(marks))
    begins = sorted(life.begin for life in model.lives)
    ends = sorted(life.end for life in model.lives if life.end is not None)
    for mark, (ns, kind, text) in zip(seen['marks'], marks):
        before = sum(begin <= ns for begin in begins) + sum(end < ns for end in ends)
        differs(f'mark at {ns}', (mark['ns'], mark['kind'], mark['text'], mark['event']), (ns, kind, text, before))
    high, peak = 0, None
    live = count = 0
    for ns, event, life, is_free, after in model.walked:
        live, count = after, count + (-1 if is_free else 1) * (life.size > 0)
        if after > high:
            high, peak = after, {'bytes': after, 'ns': ns, 'event': event + 1, 'allocation_id': life.id,
                                 'count': count}
    differs('peak', seen['peak'], peak)
    differs('live', seen['live'], {'bytes': live, 'count': count})
    differs('events', (seen['events'], seen['allocations'], seen['frees']),
            (model.events, len(model.lives), model.events - len(model.lives)))
    if model.moments:
        differs('begin, end', (seen['begin_ns'], seen['end_ns']), (model.moments[0][0], model.moments[-1][0]))


def check_peak_at(trace, seen, arguments):
    """The live set at some instants is that of `tidemark peak --at`."""
    lives = seen['lives']['values']
    anchors = list(zip(*(seen['anchors']['values'][name] for name in ('ns', 'bytes', 'count'))))
    for ns, bytes_, count in anchors[::max(1, len(anchors) // 8)]:
        if ns < 0 or seen['lives']['least_bytes']:
            continue
        peak = json.loads(run('peak', '--json', f'--at={ns}ns', '--blocks=100000', *arguments, trace))
        differs(f'peak --at={ns}ns', (peak['at_bytes'], peak['at_count']), (bytes_, count))
        there = sorted(allocation for begin, lived, allocation in
                       zip(lives['alloc_ns'], lives['lived'], lives['allocation_id'])
                       if begin <= ns and (not lived or ns < begin + lived))
        differs(f'peak --at={ns}ns: blocks', sorted(block['allocation_id'] for block in peak['blocks']), there)


def check_model(trace, arguments):
    options = dict(argument[2:].split('=') for argument in arguments if '=' in argument)
    for name in ('from', 'to'):
        if name in options:
            options[name] = options[name].removesuffix('ns')
    detail = DETAILS[options.get('detail', 'normal')]
    seen = json.loads(run('report', '--json', *arguments, trace))
    model = Model(trace, options)
    check_lists(model, seen)
    check_buckets(model, seen, True, detail[0])
    check_buckets(model, seen, False, detail[0])
    check_series(model, seen, detail[1])
    check_map(model, seen, detail[2], detail[3])
    check_sizes_by_lifetimes(model, seen)
    check_anchors(model, seen, detail)
    check_peak_at(trace, seen, [argument for argument in arguments if not argument.startswith('--detail')])


def check_commands(trace, arguments):
    reports = json.loads(run('report', '--json', *arguments, trace))['reports']
    arguments = [argument for argument in arguments if not argument.startswith('--detail')]
    for command, more in (('summary', []), ('peak', ['--limit=1000', '--blocks=50']),
                          ('fragmentation', ['--limit=1000']), ('histogram', ['--limit=1000']),
                          ('top', ['--limit=1000']), ('leaks', ['--limit=1000']), ('failures', ['--limit=1000']),
                          ('layers', [])):
        differs(command, reports[command], json.loads(run(command, '--json', *more, *arguments, trace)))
    differs('commands', sorted(reports), ['failures', 'fragmentation', 'histogram', 'layers', 'leaks', 'peak',
                                          'summary', 'top'])


class Page(html.parser.HTMLParser):
    """The elements of a page that are data, and all others."""

    def __init__(self, text):
        super().__init__()
        self.data, self.others, self.inside = {}, [], None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.inside = attributes.get('id') if tag == 'script' and 'type' in attributes else None
        if self.inside is not None:
            self.data[self.inside] = ''
        elif tag == 'meta' and 'http-equiv' in attributes:
            self.others.append(attributes['content'].split(';')[0])

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside is not None:
            self.data[self.inside] += data


def decode_columns(member, data):
    values, at = {}, 0
    for column in member['columns']:
        numbers, before = [], 0
        for _ in range(member['rows']):
            number = shift = 0
            if column['code'] == 'u8':
                number, at = data[at], at + 1
            else:
                while True:
                    byte, at = data[at], at + 1
                    number |= (byte & 127) << shift
                    shift += 7
                    if byte < 128:
                        break
            if column['code'] == 'delta':
                number = before = (before + (number >> 1 ^ -(number & 1))) % 2 ** 64
            number %= 2 ** 64
            numbers.append(number - 2 ** 64 if number >= 2 ** 63 else number)
        values[column['name']] = numbers
    differs('bytes behind the columns', len(data) - at, 0)
    return values


def decode(page, member):
    if isinstance(member, list):
        return [decode(page, one) for one in member]
    if not isinstance(member, dict):
        return member
    if 'id' in member and 'code' in member:
        data = zlib.decompress(base64.b64decode(page.data[member['id']], validate=True), -15)
        differs(f'{member["id"]}: bytes', len(data), member['bytes'])
        if member['code'] == 'json':
            return json.loads(data)
        rest = {key: value for key, value in member.items() if key not in ('id', 'code', 'bytes', 'columns')}
        return {**rest, 'values': decode_columns(member, data)}
    return {key: decode(page, value) for key, value in member.items()}


def check_page(trace, arguments):
    text = run('report', '-o', '-', *arguments, *trace.split()).decode()
    page = Page(text)
    wanted = json.loads(run('report', '--json', *arguments, *trace.split()))
    differs('page', page.others[:1], ["default-src 'none'"])
    differs('the data', decode(page, json.loads(page.data['tidemark'])), wanted)
    differs('a "<" in the manifest', '<' in page.data['tidemark'], False)


def make_random(trace, seed):
    """Many equal times, lives of 0 bytes, failures, names that are markup."""
    draw = random.Random(seed)
    db = sqlite3.connect(trace)
    db.execute("INSERT INTO layer(layer_id, upstream_layer_id, kind, config) VALUES (3, 2, 'log', ''), (4, 2, 'log', '')")
    db.execute('UPDATE layer SET upstream_layer_id = 3 WHERE layer_id = 1')
    for tag in range(1, draw.choice([2, 30])):
        db.execute('INSERT INTO tag VALUES (?, ?, ?)',
                   (tag, draw.choice([None, *range(1, tag)]), f'<script>{tag}</script><!--'))
    for thread in range(2, draw.choice([3, 25])):
        db.execute('INSERT INTO thread VALUES (?, ?, ?)', (thread, 100 + thread, f'"]]>{thread}'))
    for stream in range(2, draw.choice([3, 25])):
        db.execute('INSERT INTO stream VALUES (?, ?, 0)', (stream, 64 * stream))
    for frame in range(1, 30):
        db.execute('INSERT INTO frame VALUES (?, ?, NULL, ?, ?, ?)',
                   (frame, frame, f'f{frame // 2}<b>', '/a.c', frame // 2))
    for stack in range(1, 20):
        for position in range(draw.randrange(1, 5)):
            db.execute('INSERT INTO callstack VALUES (?, ?, ?)', (stack, position, draw.randrange(1, 30)))
    count, now = draw.choice([1, 5, 300, 3000]), draw.choice([0, 1000])
    step, sizes = draw.choice([1, 3, 1000, 10 ** 6]), draw.choice([(0, 9), (0, 10 ** 5), (1, 10 ** 9)])
    tags = db.execute('SELECT max(tag_id) FROM tag').fetchone()[0] or 0
    threads, = db.execute('SELECT max(thread_id) FROM thread').fetchone()
    streams, = db.execute('SELECT max(stream_id) FROM stream').fetchone()
    space = draw.choice([2 ** 20, 2 ** 40, 2 ** 62])
    rows = []
    for number in range(1, count + 1):
        now += draw.randrange(step + 1)
        status = draw.choice([0] * 30 + [3, 4])
        end = draw.choice([None, now, now + draw.randrange(5 * step + 1), now + draw.randrange(1000 * step + 1)])
        address = draw.randrange(space) - (2 ** 61 if space == 2 ** 62 else 0)
        rows.append((number, draw.choice([1, 1, 1, 3, 4]), address, draw.randint(*sizes), 256, status, now, 10,
                     draw.randrange(1, threads + 1), draw.randrange(1, streams + 1),
                     None if status else end, draw.choice([None, *range(1, tags + 1)]),
                     draw.choice([None, *range(1, 20)])))
    if draw.randrange(4) == 0 and count > 5:
        rows[1], rows[4] = rows[4][:6] + rows[1][6:], rows[1][:6] + rows[4][6:]  # times that run backwards
        rows = [(i + 1, *row[1:]) for i, row in enumerate(rows)]
    db.executemany('INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, alloc_ns,'
                   ' alloc_duration_ns, alloc_thread_id, alloc_stream_id, free_ns, tag_id, callstack_id)'
                   ' VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)', rows)
    for _ in range(draw.choice([0, 4, 40])):
        db.execute("INSERT INTO mark VALUES (?, 1, 'mark', ?, NULL)", (draw.randrange(now + 1), '</script>'))
    db.commit()


tidemark, what, trace, *rest = sys.argv[1:]
if what == 'random':
    make_random(trace, int(rest[0]))
else:
    for one in what.split(','):
        {'model': check_model, 'commands': check_commands, 'page': check_page}[one](trace, rest)
    print('\n'.join(problems) if problems else 'equal')
