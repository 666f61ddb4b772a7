'use strict';
// The timeline: groups stacked, the total from the least to the most of each pixel, what was reserved, limits, failures
// and marks; below it the whole recording with the window as a brush.

let stack = null;          /* the series of the chosen grouping, null while it is decoded */
let rival = null;          /* the series of the second trace */

function timelineScale() {
  let [, most] = extremes(data.series[view.x], view.from, view.to);
  if (rival) most = Math.max(most, extremes(rival.series[view.x], ...rivalWindow())[1]);
  for (const memory of data.reserved) {
    if (memory.columns) for (let [i, behind] = reservedRows(memory.columns); i < behind; i++) most = Math.max(most, memory.columns.bytes[i]);
    if (memory.limit_bytes <= most * 1.5) most = Math.max(most, memory.limit_bytes);
  }
  return Math.max(most * 1.04, 1);
}

/* The rows of what was reserved in the window: the first, and the one behind the last. */
function reservedRows({ ns }) {
  const [from, to] = [axis().ns(view.from), axis().ns(view.to)];
  return [Math.max(0, firstBehind(ns, from) - 1), firstBehind(ns, to)];
}

/* The second trace begins with the first: its window is as long. */
function rivalWindow() {
  const shift = view.x === 'time' ? rival.begin - data.begin : 0;
  return [view.from + shift, view.to + shift];
}

function drawTimeline() {
  const canvas = begin(byId('timeline-canvas'));
  const { pen, width, height } = canvas;
  const bottom = height - AXIS;
  const most = timelineScale();
  const y = (value) => bottom - value / most * (bottom - TOP);
  const picture = cellsOf(canvas, bottom);
  const columns = pixelColumns(picture.across);
  if (stack) paintStack(picture, columns, y);
  paintTotal(picture, columns, y);
  picture.put();
  if (data.manifest.peak) drawBytesAxis(pen, width, bottom, most, y);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT - RIGHT, bottom);
  pen.clip();
  if (rival) drawRival(pen, pixelColumns(Math.floor(width - LEFT - RIGHT), rival), y);
  drawReserved(pen, width, y);
  drawCursor(pen, width, TOP, bottom);
  drawFailures(pen, width, bottom);
  pen.restore();
  if (!data.manifest.peak) {
    pen.textAlign = 'center';
    pen.fillStyle = theme.quiet;
    pen.fillText('Nothing was ever live in this recording.', (LEFT + width) / 2, height / 2);
  }
  drawMarks(pen, width, bottom);
  drawAxis(pen, width, bottom);
}

/* For each pixel the least and most that was live. */
function pixelColumns(pixels, other) {
  const source = other ?? data;
  const [from, to] = other ? rivalWindow() : [view.from, view.to];
  const each = (to - from) / pixels;
  const columns = { from, each, pixels, least: new Float64Array(pixels), most: new Float64Array(pixels) };
  for (let i = 0; i < pixels; i++) {
    [columns.least[i], columns.most[i]] = extremes(source.series[view.x], from + i * each, from + (i + 1) * each);
  }
  return columns;
}

/* Of each pixel the bucket whose total is the highest; where buckets are wider than pixels, scaled to the pixel's total. */
function bucketsOf(columns) {
  const picked = new Int32Array(columns.pixels);
  for (let i = 0; i < columns.pixels; i++) {
    const from = columns.from + i * columns.each;
    const first = Math.min(Math.max(Math.floor((from - stack.begin) / stack.width), 0), stack.rows - 1);
    const last = Math.min(Math.max(Math.ceil((from + columns.each - stack.begin) / stack.width) - 1, first), stack.rows - 1);
    let best = first;
    for (let b = first + 1; b <= last; b++) if (stack.total[b] > stack.total[best]) best = b;
    picked[i] = best;
  }
  return picked;
}

/* Group upon group in each column, paler from its most down to its least, which is what was live all the time. */
function paintStack({ cells, across, down, ratio }, columns, y) {
  const picked = bucketsOf(columns);
  const paper = pixel(channels(theme.paper));
  const tile = Math.round(6 * ratio);
  const shown = stack.values.flatMap((series, group) => {
    const colour = channels(groupColour(group));
    const pale = colour.map((part, c) => Math.round(part * .7 + channels(theme.paper)[c] * .3));
    return view.hidden.has(group) ? [] : [{ series, colour: pixel(colour), pale: pixel(pale), hatched: isHatched(group) }];
  });
  for (let i = 0; i < across; i++) {
    const total = stack.total[picked[i]];
    const scale = total > columns.most[i] ? columns.most[i] / total : 1;
    const least = Math.round(y(columns.least[i]) * ratio);
    let row = down;
    let sum = 0;
    for (const { series, colour, pale, hatched } of shown) {
      sum += series[picked[i]] * scale;
      const top = Math.max(0, Math.round(y(sum) * ratio));
      while (row > top) {
        row--;
        cells[row * across + i] = hatched && (row + i) % tile * 4 < tile ? paper : row < least ? pale : colour;
      }
    }
  }
}

/* The most of each column as a line, joined to that of the column before. */
function paintTotal({ cells, across, down, ratio }, { most }, y) {
  const ink = pixel(channels(theme.ink));
  const thick = Math.round(ratio);
  let before = null;
  for (let i = 0; i < across; i++) {
    const row = Math.min(down - thick, Math.max(0, Math.round((y(most[i]) - .5) * ratio)));
    const behind = Math.max(row, before ?? row) + thick;
    for (let at = Math.min(row, before ?? row); at < behind; at++) cells[at * across + i] = ink;
    before = row;
  }
}

function drawRival(pen, { most, pixels }, y) {
  pen.strokeStyle = theme.ink;
  pen.lineWidth = 2;
  pen.setLineDash([2, 3]);
  pen.beginPath();
  pen.moveTo(LEFT, y(most[0]));
  for (let i = 0; i < pixels; i++) {
    if (i && most[i] === most[i - 1]) continue;
    if (i) pen.lineTo(LEFT + i, y(most[i - 1]));
    pen.lineTo(LEFT + i, y(most[i]));
  }
  pen.lineTo(LEFT + pixels, y(most[pixels - 1]));
  pen.stroke();
  pen.setLineDash([]);
}

function drawReserved(pen, width, y) {
  for (const memory of data.reserved) {
    if (memory.columns) {
      pen.strokeStyle = theme.ink;
      pen.lineWidth = 1.5;
      pen.setLineDash([5, 4]);
      pen.beginPath();
      traceReserved(pen, memory.columns, width, y);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (memory.limit_bytes !== null && y(memory.limit_bytes) >= 0) {
      pen.fillStyle = theme.bad;
      pen.fillRect(LEFT, y(memory.limit_bytes) - 1, width, 2);
    }
  }
  pen.lineWidth = 1;
}

/* Step by step; of steps that begin in one pixel the least and the most, and where they lead. */
function traceReserved(pen, { ns, bytes: values, rows }, width, y) {
  let [i, behind] = reservedRows({ ns });
  while (i < behind) {
    const x = Math.max(LEFT - 1, Math.round(xOf(axis().of(ns[i]), width)));
    let [least, most] = [values[i], values[i]];
    for (; i + 1 < behind && Math.round(xOf(axis().of(ns[i + 1]), width)) <= x; i++) {
      least = Math.min(least, values[i + 1]);
      most = Math.max(most, values[i + 1]);
    }
    if (least < most) {
      pen.lineTo(x, y(least));
      pen.lineTo(x, y(most));
    }
    pen.lineTo(x, y(values[i]));
    i++;
    pen.lineTo(i < behind ? Math.round(xOf(axis().of(ns[i]), width)) : Math.min(width, xOf(axis().of(i < rows ? ns[i] : data.end), width)), y(values[i - 1]));
  }
}

function drawFailures(pen, width, bottom) {
  if (!data.failures) return;
  pen.fillStyle = theme.bad;
  let last = -1;
  for (const ns of data.failures.ns) {
    const x = Math.round(xOf(axis().of(ns), width));
    if (x === last || x < LEFT || x > width) continue;
    pen.fillRect(x - 1, TOP, 2, bottom - TOP);
    last = x;
  }
}

/* Flags with their words above the picture, as many as have room. */
function drawMarks(pen, width, bottom) {
  let free = LEFT;
  for (const mark of data.marks) {
    const x = Math.round(xOf(view.x === 'time' ? mark.ns : mark.event, width));
    if (x < LEFT || x > width - RIGHT) continue;
    pen.fillStyle = theme.warn;
    pen.fillRect(x, x >= free ? 2 : TOP - 5, 1, x >= free ? TOP + 6 : 8);
    if (x < free) continue;
    pen.textAlign = 'left';
    const text = fitted(pen, mark.text || mark.kind, Math.min(140, width - RIGHT - x - 6));
    pen.fillText(text, x + 4, 9);
    free = x + pen.measureText(text).width + 16;
  }
}

function drawOverview() {
  const canvas = begin(byId('overview'));
  const { pen, width, height } = canvas;
  const { begin: from, end: to } = axis();
  const picture = overviewPicture(canvas, from, to);
  picture.put();
  pen.globalCompositeOperation = 'destination-over';
  pen.fillStyle = theme.ground;
  pen.fillRect(LEFT, 0, width - LEFT - RIGHT, height);
  pen.globalCompositeOperation = 'source-over';
  const [a, b] = [view.from, view.to].map((at) => LEFT + (at - from) / Math.max(to - from, 1) * (width - LEFT - RIGHT));
  pen.fillStyle = theme.paper;
  pen.globalAlpha = .72;
  pen.fillRect(LEFT, 0, a - LEFT, height);
  pen.fillRect(b, 0, width - RIGHT - b, height);
  pen.globalAlpha = 1;
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 2;
  pen.strokeRect(a + 1, 1, Math.max(2, b - a - 2), height - 2);
}

const overviewKept = { picture: null, key: '' };

/* The whole recording, which stays the same while the window moves. */
function overviewPicture(canvas, from, to) {
  const key = [view.x, canvas.width, canvas.ratio, theme.quiet].join();
  if (overviewKept.key === key) return overviewKept.picture;
  const picture = cellsOf(canvas, canvas.height);
  const { cells, across, down } = picture;
  const most = Math.max(1, extremes(data.series[view.x], from, to)[1]);
  const colour = pixel(channels(theme.quiet));
  for (let i = 0; i < across; i++) {
    const high = extremes(data.series[view.x], from + (to - from) * i / across, from + (to - from) * (i + 1) / across)[1];
    for (let row = Math.round(down - (2 + high / most * (canvas.height - 6)) * canvas.ratio); row < down; row++) cells[row * across + i] = colour;
  }
  return Object.assign(overviewKept, { picture, key }).picture;
}

/* The group that is drawn at a height of the picture. */
function groupBelow(at, y) {
  const bottom = byId('timeline-canvas').clientHeight - AXIS;
  const bucket = stack && Math.floor((at - stack.begin) / stack.width);
  if (!stack || bucket < 0 || bucket >= stack.rows) return [];
  let left = (bottom - y) / (bottom - TOP) * timelineScale();
  const group = stack.values.findIndex((values, g) => !view.hidden.has(g) && (left -= values[bucket]) <= 0);
  return group < 0 || y > bottom ? [] : [`${bytes(stack.values[group][bucket])} of it: ${stack.names[group] || '(none)'}`];
}

/* What the pointer or the cursor is on, in words. */
function readingAt(at) {
  const series = data.series[view.x];
  const each = (view.to - view.from) / Math.max(1, byId('timeline-canvas').clientWidth - LEFT - RIGHT);
  const [least, most] = extremes(series, at, at + Math.max(each, 1e-9));
  const lines = [view.x === 'time' ? time(at, each) : 'event ' + number(at) + ', ' + time(nsOfEvent(at))];
  lines.push(least === most ? bytes(most) + ' live' : `${bytes(least)} to ${bytes(most)} live`);
  for (const memory of data.reserved) {
    if (!memory.columns) continue;
    const i = firstBehind(memory.columns.ns, axis().ns(at)) - 1;
    if (i >= 0) lines.push(`${bytes(memory.columns.bytes[i])} reserved${data.reserved.length > 1 ? ', ' + memory.name : ''}`);
  }
  if (rival) {
    const [, other] = extremes(rival.series[view.x], at - view.from + rivalWindow()[0], at - view.from + rivalWindow()[0] + each);
    lines.push(`${bytes(other)} in the second trace`);
  }
  return lines;
}

function describeTimeline() {
  const [least, most] = extremes(data.series[view.x], view.from, view.to);
  const { peak } = data.manifest;
  const [from, to] = [view.from, view.to].map((at) => axis().text(at, (view.to - view.from) / 100));
  byId('window').textContent = `${from} – ${to}`;
  const text = `Live memory by ${GROUPING_WORDS[view.by] ?? view.by}, over ${view.x === 'time' ? 'time' : 'events'} from ${from} ` +
    `to ${to}: between ${bytes(least)} and ${bytes(most)}` + (peak ? `. The peak of all is ${bytes(peak.bytes)} at ${time(peak.ns)}.` : '.');
  byId('timeline-canvas').setAttribute('aria-label', text);
  if (byId('timeline-table').parentElement.open) byId('timeline-table').replaceChildren(timelineTable());
}

/* The picture as 64 rows. */
function timelineTable() {
  const width = (view.to - view.from) / 64;
  const rows = Array.from({ length: 64 }, (_, i) => {
    const [least, most] = extremes(data.series[view.x], view.from + i * width, view.from + (i + 1) * width);
    return { at: view.from + i * width, least, most };
  });
  return table('The window in 64 parts', rows, [['from', (row) => axis().text(row.at, width / 10), 'n'],
    ['least live', (row) => bytes(row.least), 'n'], ['most live', (row) => bytes(row.most), 'n']]);
}

const GROUPING_WORDS = { size: 'size class', tag: 'tag', thread: 'thread', stream: 'stream', frame: 'function', layer: 'layer' };

function fillLegend() {
  const list = byId('legend');
  const brief = toldApart((data.manifest.groups[view.by]?.series ?? []).map((row) => row.name ?? ''), 30);
  const rows = (data.manifest.groups[view.by]?.series ?? []).map((row, group) => {
    const button = make('button', { type: 'button', title: (row.name ?? '(none)') +
      (row.peak_bytes === null ? '' : `, ${bytes(row.peak_bytes)} at most`) },
    swatch(group), make('span', null, shortened(brief(row.name ?? '') || '(none)', 30)));
    const show = () => button.setAttribute('aria-pressed', String(!view.hidden.has(group)));
    button.addEventListener('click', () => {
      if (!view.hidden.delete(group)) view.hidden.add(group);
      show();
      changed('window');
    });
    show();
    return make('li', null, button);
  });
  const rule = (kind, text) => make('li', { className: 'rule ' + kind }, make('i'), text);
  rows.push(rule('total', 'all'));
  if (data.reserved.some((memory) => memory.columns)) rows.push(rule('reserved', 'reserved'));
  for (const memory of data.reserved) {
    const whose = data.reserved.length > 1 ? ' of ' + memory.name : '';
    if (memory.limit_bytes !== null) rows.push(rule('limit', 'limit ' + bytes(memory.limit_bytes) + whose));
  }
  if (data.manifest.failures_count) rows.push(rule('limit', plural(data.manifest.failures_count, 'failure')));
  if (rival) rows.push(rule('other', 'second trace: ' + (rival.manifest.trace.file ?? 'B')));
  list.replaceChildren(...rows);
}

async function chooseGrouping() {
  const by = view.by;
  if (!by) return;
  const found = await groupsOf(data, by, view.x);
  if (by !== view.by) return;
  stack = found;
  changed('groups');
}

function timelinePart(what) {
  if (what.has('by') || what.has('axis')) {
    if (what.has('by')) view.hidden.clear();
    stack = null;
    byId('by').value = view.by;
    for (const x of Object.keys(AXES)) byId('axis-' + x).setAttribute('aria-pressed', String(view.x === x));
    fillLegend();
    chooseGrouping();
  }
  drawTimeline();
  drawOverview();
  if (what.has('at')) byId('reading').textContent = readingAt(axis().of(view.at)).join(', ');
}
