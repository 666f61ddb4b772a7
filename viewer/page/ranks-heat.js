'use strict';
// The heat map: a line for each rank, coloured by what it has, or by how far that is from the median of all ranks.

const ORDERS = { rank: 'rank', peak: 'highest peak', host: 'host' };
const NEAR_LINES = 48;
const LABELS = 14;          /* pixels from one label to the next */
let lines = [];             /* in the order that is drawn */
let shades = null;          /* the colours of the theme */
const heat = { key: '', tile: null };

/* The cursor on the axis that is looked at: ns since the begin of the job, or a step. */
const spot = () => (view.x === 'time' ? view.at : view.step);

function setSpot(at) {
  const { begin, end } = axis();
  const kept = Math.min(Math.max(at, begin), end);
  if (view.x === 'time') view.at = kept;
  else view.step = Math.min(Math.floor(kept), end - 1);
  if (kept < view.from || kept > view.to) look(kept - (view.to - view.from) / 2, kept + (view.to - view.from) / 2);
  changed('at');
}

/* The lines that are shown: from, and up to. */
function lineWindow() {
  if (!view.near || lines.length <= NEAR_LINES) return [0, lines.length];
  const at = Math.max(0, lines.findIndex(({ rank }) => rank === view.rank));
  const from = Math.min(Math.max(0, at - NEAR_LINES / 2), lines.length - NEAR_LINES);
  return [from, from + NEAR_LINES];
}

const heatBottom = () => byId('heat-canvas').clientHeight - AXIS;

function sizeHeat() {
  const [from, to] = lineWindow();
  byId('heat-canvas').style.height = Math.min(Math.max((to - from) * 16, 96), innerWidth < 640 ? 360 : 520) + 8 + AXIS + 'px';
}

function readShades() {
  const style = getComputedStyle(document.documentElement);
  const [over, under] = ['--over', '--under'].map((name) => style.getPropertyValue(name).trim());
  /* By the square root: a tenth of the furthest is still seen. */
  const bowed = (ends) => Uint32Array.from({ length: 1024 }, (_, i) => ends[Math.round(Math.sqrt(i / 1023) * 255)]);
  shades = { bytes: ramp(theme.low, theme.high), over: bowed(ramp(theme.paper, over)), under: bowed(ramp(theme.paper, under)),
    unknown: [pixel(channels(theme.paper)), pixel(channels(theme.quiet))] };
}

/* For each pixel the first and last bucket; -1: it lies beside all of them. */
function heatColumns(width) {
  const { begin: first, width: each, buckets } = grid();
  const columns = { first: new Int32Array(width), last: new Int32Array(width) };
  for (let i = 0; i < width; i++) {
    const from = (view.from + (view.to - view.from) * i / width - first) / each;
    const to = (view.from + (view.to - view.from) * (i + 1) / width - first) / each;
    const outside = to <= 0 || from >= buckets;
    columns.first[i] = outside ? -1 : Math.max(0, Math.floor(from));
    columns.last[i] = outside ? -1 : Math.min(buckets - 1, Math.max(Math.floor(from), Math.ceil(to) - 1));
  }
  return columns;
}

/* Put a line's cells into `best`, in units, where they say more than what is there. This runs for a million cells. */
function paintLine(row, { first, last }, best) {
  const { cells, buckets, known, middle } = grid();
  const beside = view.mode === 'median';
  const [from, to] = [known.first[row], known.first[row] + known.count[row] - 1];
  const base = row * buckets;
  for (let x = 0; x < best.length; x++) {
    const end = last[x] < to ? last[x] : to;
    for (let b = first[x] > from ? first[x] : from; first[x] >= 0 && b <= end; b++) {
      const value = beside ? cells[base + b] - middle[b] : cells[base + b];
      const there = best[x];
      if (there !== there || (value < 0 ? -value : value) > (there < 0 ? -there : there)) best[x] = value;   /* NaN is not itself */
    }
  }
}

/* The picture, a pixel for each; where several ranks share one, the one that says most. */
function paintHeat(width, height) {
  const image = new ImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const columns = heatColumns(width);
  const [from, to] = lineWindow();
  const each = height / (to - from);
  const best = new Float64Array(width);
  let painted = -1;
  for (let y = 0; y < height; y++) {
    const first = from + Math.floor(y / each);
    const last = Math.max(first, Math.min(to, Math.ceil(from + (y + 1) / each)) - 1);
    if (first !== painted || last > first) {
      best.fill(NaN);
      for (let at = first; at <= last; at++) if (lines[at].row >= 0) paintLine(lines[at].row, columns, best);
      painted = first;
    } else if (lines[first].row >= 0 && !hatched(first, columns)) {
      pixels.copyWithin(y * width, (y - 1) * width, y * width);
      continue;
    }
    paintPixels(pixels, y * width, best, y);
  }
  return image;
}

function paintPixels(pixels, begin_, best, y) {
  const unit = grid().unit_bytes;
  const { bytes: plain, over, under, unknown } = shades;
  const beside = view.mode === 'median';
  const scale = beside ? unit / grid().furthest * 1023 : unit / grid().highest * 255;
  for (let x = 0; x < best.length; x++) {
    const value = best[x];
    let shade;
    if (value !== value) shade = unknown[(x + y) % 6 ? 0 : 1];
    else if (!beside) shade = plain[value * scale + .5 | 0];
    else shade = value < 0 ? under[-value * scale + .5 | 0] : over[value * scale + .5 | 0];
    pixels[begin_ + x] = shade;
  }
}

/* Whether a line has pixels of which nothing is known: their hatch is not the same in each row of pixels. */
function hatched(at, columns) {
  const { first, count: known } = grid().known;
  const { row } = lines[at];
  return columns.first[0] < first[row] || columns.first.at(-1) < 0 || columns.last.at(-1) >= first[row] + known[row];
}

function drawHeat() {
  sizeHeat();
  const { pen, width, height } = begin(byId('heat-canvas'));
  const bottom = height - AXIS;
  const [w, h] = [Math.max(1, Math.floor(width - LEFT - RIGHT)), Math.max(1, Math.floor(bottom - 8))];
  const key = [w, h, view.from, view.to, view.x, view.mode, view.order, lineWindow(), job.memory.place, theme.paper, printing].join();
  if (heat.key !== key) {
    heat.tile ??= make('canvas');
    Object.assign(heat.tile, { width: w, height: h });
    heat.tile.getContext('2d').putImageData(paintHeat(w, h), 0, 0);
    heat.key = key;
  }
  pen.imageSmoothingEnabled = false;
  pen.drawImage(heat.tile, LEFT, 8, w, h);
  pen.strokeStyle = theme.rule;
  pen.strokeRect(LEFT + .5, 8.5, w - 1, h - 1);
  drawHosts(pen, w, h);
  drawHeatFailures(pen, width, h);
  drawLabels(pen, w, h);
  drawHeatCursor(pen, width, h);
  drawAxis(pen, width, bottom);
  if (view.x === 'steps') {
    pen.textAlign = 'center';
    pen.fillStyle = theme.quiet;
    pen.fillText('steps', (LEFT - 12) / 2, bottom + 13);
  }
}

/* Where the next host begins, where ranks are in the order of hosts. */
function drawHosts(pen, width, height) {
  const [from, to] = lineWindow();
  if (view.order !== 'host') return;
  pen.fillStyle = theme.ink;
  for (let at = from + 1; at < to; at++) {
    if (lines[at].host !== lines[at - 1].host) pen.fillRect(LEFT, Math.round(8 + (at - from) * height / (to - from)), width, 1);
  }
}

function drawHeatFailures(pen, width, height) {
  const [from, to] = lineWindow();
  const failures = failuresHere();
  if (view.x !== 'time' || !failures.length) return;
  const placeOf = new Map(lines.slice(from, to).map(({ rank }, at) => [rank, at]));
  for (const { rank, ns } of failures) {
    const x = xOf(jobTime(rank, ns), width);
    if (!placeOf.has(rank) || x < LEFT || x > width - RIGHT) continue;
    const y = 8 + (placeOf.get(rank) + .5) * height / (to - from);
    pen.fillStyle = theme.paper;
    pen.fillRect(x - 4, y - 4, 8, 8);
    pen.fillStyle = theme.bad;
    pen.fillRect(x - 3, y - 3, 6, 6);
  }
}

/* Numbers of ranks at the left edge, as many as have room; the selected one always. Hosts where they are the order. */
function drawLabels(pen, width, height) {
  const [from, to] = lineWindow();
  const each = height / (to - from);
  const every = Math.max(1, Math.ceil(LABELS / each));
  const step = every === 1 ? 1 : 2 ** Math.ceil(Math.log2(every));
  const chosen = lines.findIndex(({ rank }) => rank === view.rank);
  const y = (at) => 8 + (at - from + .5) * each;
  pen.textAlign = 'right';
  let free = -Infinity;
  for (let at = from; at < to; at++) {
    const isHost = view.order === 'host' && lines[at].host !== null && (at === from || lines[at].host !== lines[at - 1].host);
    const wanted = view.order === 'host' && every > 1 ? isHost : (at - from) % step === 0;
    if (!wanted || y(at) < free || Math.abs(y(at) - y(chosen)) < LABELS) continue;
    pen.fillStyle = lines[at].row < 0 ? theme.bad : theme.quiet;
    pen.fillText(fitted(pen, isHost ? shortHost(lines[at].host) + ' ' + lines[at].rank : String(lines[at].rank), LEFT - 12), LEFT - 8, y(at));
    free = y(at) + LABELS;
  }
  if (chosen < from || chosen >= to) return;
  pen.fillStyle = theme.accent;
  pen.font = 'bold ' + FONT;
  pen.fillText('▸ ' + lines[chosen].rank, LEFT - 8, Math.max(8, Math.min(y(chosen), 8 + height)));
  pen.font = FONT;
  pen.strokeStyle = theme.accent;
  pen.lineWidth = each < 7 ? 1 : 2;   /* around a line of a pixel, which stays to be seen */
  pen.strokeRect(LEFT, y(chosen) - Math.max(each, 7) / 2, width, Math.max(each, 7));
  pen.lineWidth = 1;
}

/* What tells hosts apart fits beside a picture. */
const shortHost = (host) => (host.length > 6 ? host.slice(-6) : host);

/* On steps the middle of the step. */
const spotX = (width) => xOf(view.x === 'time' ? spot() : spot() + .5, width);

function drawHeatCursor(pen, width, height) {
  const x = Math.round(spotX(width)) + .5;
  if (x < LEFT || x > width - RIGHT + 1) return;
  pen.strokeStyle = theme.ink;
  pen.beginPath();
  pen.moveTo(x, 8);
  pen.lineTo(x, 8 + height);
  pen.stroke();
}

/* The rank at a height: where several share a pixel, the one that is drawn there. */
function lineAt(y, at) {
  const [from, to] = lineWindow();
  const height = heatBottom() - 8;
  const first = Math.min(to - 1, Math.max(from, from + Math.floor((y - 8) * (to - from) / height)));
  const last = Math.min(to - 1, Math.max(first, from + Math.ceil((y - 7) * (to - from) / height) - 1));
  const bucket = bucketAt(at);
  const said = ({ row }) => (row < 0 ? -1 : Math.abs(cellOf(row, bucket, bucket)) || 0);
  let best = first;
  for (let line = first + 1; line <= last; line++) if (said(lines[line]) > said(lines[best])) best = line;
  return lines[best];
}

const spotWords = (at) => (view.x === 'time' ? time(at, (view.to - view.from) / 1000) : stepWords(at));

/* The steps of a bucket. */
function stepWords(at) {
  const { begin: first, width: each } = grid();
  const from = first + bucketAt(at) * each;
  const to = from + each - 1;
  const isBefore = from < data.manifest.memories[job.memory.place].first_step;
  return from === to ? (isBefore ? 'before the first step' : 'step ' + number(from)) : `steps ${isBefore ? 'up' : number(from)} to ${number(to)}`;
}

/* A rank at a moment, in words. */
function heatWords(line, at) {
  const host = line.host === null ? '' : ', ' + shortened(line.host, 60);
  if (line.row < 0) return [`rank ${line.rank}${host}`, job.byRank.has(line.rank) ? 'nothing of this memory' : 'missing: it is not in the file'];
  const b = bucketAt(at);
  const value = cellAt(grid(), line.row, b);
  const median = grid().median[b];
  const words = [`rank ${line.rank}${host}`, spotWords(at)];
  if (Number.isNaN(value)) return [...words, 'nothing is recorded then'];
  const failed = view.x === 'time' ? failuresHere().filter(({ rank, ns }) => rank === line.rank && bucketAt(jobTime(rank, ns)) === b).length : 0;
  return [...words, bytes(value) + ' at most', `median ${bytes(median)}, ${value < median ? '' : '+'}${bytes(value - median)}`,
    ...(failed ? [plural(failed, 'failure')] : [])];
}

function fillScale() {
  const item = (kind, ...texts) => make('span', null, texts[0] ?? null, make('i', { className: kind }), texts[1] ?? null);
  const { highest, furthest, width } = grid();
  const cell = view.x === 'time' ? time(width) : width === 1 ? 'step' : number(width) + ' steps';
  byId('scale').replaceChildren(...[view.mode === 'bytes' ? item('', '0 B', bytes(highest))
    : item('beside', bytes(-furthest), '+' + bytes(furthest) + ' from the median, by the square root'), item('unknown', null, 'not recorded'),
  view.x === 'time' && data.manifest.failures && failuresHere().length ? item('failed', null, 'failure') : null,
  make('span', null, `the most in each ${cell}${grid().unit_bytes > 4096 ? `, to ${bytes(grid().unit_bytes)}` : ''}`)].filter(Boolean));
}

/* The window in eight parts, for all lines. */
function heatTable() {
  const [from, to] = lineWindow();
  const part = (view.to - view.from) / 8;
  const edges = Array.from({ length: 8 }, (_, i) => view.from + i * part);
  const cell = (line, at) => {
    const value = line.row < 0 ? NaN : cellOf(line.row, bucketAt(at), bucketAt(at + part * .999));
    return Number.isNaN(value) ? 'not recorded' : (view.mode === 'median' && value >= 0 ? '+' : '') + bytes(value);
  };
  return table(view.mode === 'median' ? 'How far from the median, at most' : 'The most that was live', lines.slice(from, to),
    [['rank', (line) => count(line.rank), 'n'], ...edges.map((at) => ['from ' + axis().text(at, part / 10), (line) => cell(line, at), 'n'])]);
}

function heatPart(what) {
  if (what.has('order') || what.has('memory') || !lines.length) lines = linesOf();
  if (what.has('theme') || !shades) readShades();
  for (const x of ['time', 'steps']) byId('axis-' + x).setAttribute('aria-pressed', String(view.x === x));
  for (const mode of ['bytes', 'median']) byId('mode-' + mode).setAttribute('aria-pressed', String(view.mode === mode));
  byId('near').setAttribute('aria-pressed', String(view.near));
  byId('near').hidden = lines.length <= NEAR_LINES;
  byId('order').value = view.order;
  drawHeat();
  fillScale();
  const line = lines.find(({ rank }) => rank === view.rank);
  const words = line ? heatWords(line, spot()).join(', ') : '';
  if (what.has('at') || what.has('rank')) byId('reading').textContent = words;
  byId('heat-canvas').setAttribute('aria-label', `${plural(lines.length, 'rank')} over ${view.x}, in the order of ${ORDERS[view.order]}; coloured by ` +
    `${view.mode === 'bytes' ? 'live bytes, at most ' + bytes(grid().highest) : 'the difference from the median, at most ' + bytes(grid().furthest)}. ${words}`);
  if (byId('heat-table').parentElement.open) byId('heat-table').replaceChildren(heatTable());
}
