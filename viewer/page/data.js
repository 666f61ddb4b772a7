'use strict';
// The data of the page (doc/report.md): everything is fetched through rawBlock(), decoded once, when first needed.

const KEY = { time: 'time', events: 'by_event' };
const WHY = [[1, 'the peak'], [2, 'a summit'], [4, 'an end of a plateau'], [8, 'a failure'], [16, 'a mark'], [32, 'the end'],
  [64, 'an even spread']];
const data = { manifest: null, groupings: [], missing: new Set() };   /* missing: fields that a table lacked */

/* Give back an array's memory at once: what a garbage collector is to find lay about for as long as the page was open. */
const release = (array) => array.buffer.transfer?.(0);

/* The one place that knows where blocks lie: elements of this page, each read once. The test reads them again. */
async function rawBlock(block) {
  const element = byId(block.id);
  const text = element.textContent;
  if (!location.hash.startsWith('#selftest')) element.remove();
  return inflate(Uint8Array.fromBase64 ? Uint8Array.fromBase64(text) : Uint8Array.from(atob(text), (c) => c.charCodeAt(0)), block);
}

/* Raw deflate, part by part into an array of as many bytes as the block is said to have. Takes `packed`. */
async function inflate(packed, { id, bytes: size }) {
  const plain = new Uint8Array(size);
  const { readable, writable } = new DecompressionStream('deflate-raw');
  const writer = writable.getWriter();
  const reader = readable.getReader();
  let at = 0;
  writer.write(packed).then(() => writer.close()).catch(() => {});   /* the reader tells of it */
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    if (at + part.value.length > size) throw new Error(`block ${id} has more than ${size} bytes`);
    plain.set(part.value, at);
    at += part.value.length;
    release(part.value);
  }
  release(packed);
  if (at !== size) throw new Error(`block ${id} has ${at} bytes, not ${size}`);
  return plain;
}

/* A block's value: the object of one in JSON, or the columns by name. */
async function read(block) {
  const raw = await rawBlock(block);
  if (block.code === 'json') {
    const value = JSON.parse(new TextDecoder().decode(raw));
    release(raw);
    return value;
  }
  const columns = { rows: block.rows };
  let at = 0;
  for (const { name, code } of block.columns) {
    if (code === 'u8') columns[name] = raw.subarray(at, at += block.rows);
    else [columns[name], at] = numbers(raw, at, block.rows, code === 'delta');
  }
  if (at !== raw.length) throw new Error(`block ${block.id} has ${raw.length - at} bytes too many`);
  if (block.columns.every(({ code }) => code !== 'u8')) release(raw);
  return columns;
}

let scratch = new Float64Array(0);

/* LEB128 as doubles, which are exact up to 2^53; deltas are zigzag and add up. */
function numbers(raw, at, rows, isDelta) {
  if (scratch.length < rows) scratch = new Float64Array(rows);
  let [sum, most, least] = [0, 0, 0];
  for (let row = 0; row < rows; row++) {
    let byte = raw[at++];
    let value = byte & 127;
    for (let scale = 128; byte > 127; scale *= 128) {
      byte = raw[at++];
      value += (byte & 127) * scale;
    }
    if (isDelta) value = sum += value % 2 ? -(value + 1) / 2 : value / 2;
    if (value > most) most = value;
    if (value < least) least = value;
    scratch[row] = value;
  }
  if (at > raw.length) throw new Error('a block ends early');
  /* 250,000 lives have 11 columns, most of small numbers. */
  const Fitting = least < 0 ? (least >= -(2 ** 31) && most < 2 ** 31 ? Int32Array : Float64Array) : most >= 2 ** 32 ? Float64Array : most < 2 ** 16 ? Uint16Array : Uint32Array;
  return [new Fitting(scratch.subarray(0, rows)), at];
}

/* What numbers() keeps for the next block, once all are read. */
function dropScratch() {
  release(scratch);
  scratch = new Float64Array(0);
}

/* Read once, and the same promise for all who ask. */
function once(holder, name, make) {
  const cache = holder.cache ??= new Map();
  if (!cache.has(name)) cache.set(name, make());
  return cache.get(name);
}

async function openData(manifest) {
  const source = { manifest, groupings: Object.keys(manifest.groups), begin: manifest.begin_ns, end: manifest.end_ns };
  const [time, events, anchors, marks] = await Promise.all([pyramid(manifest.time), pyramid(manifest.by_event),
    read(manifest.anchors), read(manifest.marks)]);
  Object.assign(source, { series: { time, events }, anchors, marks });
  source.knots = knots(time, anchors, manifest);
  source.reserved = await Promise.all(manifest.reserved.map(async (memory) => ({ ...memory,
    columns: memory.columns && await read(memory.columns) })));
  return source;
}

/* What the first picture can do without. */
async function openRest(source) {
  const { manifest } = source;
  [source.lives, source.names, source.reports, source.failures, source.matrix, source.diff] = await Promise.all([read(manifest.lives),
    read(manifest.names), read(manifest.reports), read(manifest.failures), read(manifest.sizes_by_lifetimes),
    manifest.diff ? read(manifest.diff) : null]);
  source.map = manifest.map && { time: await read(manifest.map.time), events: await read(manifest.map.by_event) };
}

/* Minima and maxima, each level with half as many buckets as the one before. */
async function pyramid(block) {
  const { least, spread, events, rows } = await read(block);
  const most = new Float64Array(rows);
  for (let i = 0; i < rows; i++) most[i] = least[i] + spread[i];
  release(spread);
  const levels = [{ least, most }];
  for (let n = rows; n > 1; n = levels.at(-1).least.length) {
    const below = levels.at(-1);
    const level = { least: new Float64Array(n + 1 >> 1), most: new Float64Array(n + 1 >> 1) };
    for (let i = 0; i < level.least.length; i++) {
      const other = Math.min(2 * i + 1, n - 1);
      level.least[i] = Math.min(below.least[2 * i], below.least[other]);
      level.most[i] = Math.max(below.most[2 * i], below.most[other]);
    }
    levels.push(level);
  }
  return { begin: block.begin, width: block.width, rows, events, levels };
}

const found = [0, 0];

/* The least and most from one position to another, in an array that the next call uses again. What lies beside is taken in
   by a quarter of that width at most. */
function extremes(series, from, to) {
  const last = series.rows - 1;
  if (last < 0 || from >= series.begin + series.rows * series.width) return found.fill(0);
  const first = Math.min(Math.max(Math.floor((from - series.begin) / series.width), 0), last);
  const behind = Math.min(Math.max(Math.ceil((to - series.begin) / series.width) - 1, first), last);
  const level = Math.max(0, Math.floor(Math.log2(behind - first + 1)) - 2);
  const { least, most } = series.levels[level];
  let [low, high] = [Infinity, -Infinity];
  for (let i = first >> level; i <= behind >> level; i++) {
    if (least[i] < low) low = least[i];
    if (most[i] > high) high = most[i];
  }
  found[0] = low;
  found[1] = high;
  return found;
}

/* Where time and the number of events are both known: at each bucket's begin, and at each anchor. */
function knots(time, anchors, manifest) {
  const size = time.rows + anchors.rows + 1;
  const [ns, events] = [new Float64Array(size), new Float64Array(size)];
  let [length, anchor, sum] = [0, 0, 0];
  const add = (at, event) => {
    ns[length] = at;
    events[length++] = event;
  };
  const addAnchors = (before) => {
    for (; anchor < anchors.rows && anchors.ns[anchor] < before; anchor++) add(anchors.ns[anchor], anchors.event[anchor]);
  };
  for (let i = 0; i < time.rows && time.begin + i * time.width <= manifest.end_ns; i++) {
    addAnchors(time.begin + i * time.width);
    add(time.begin + i * time.width, sum);
    sum += time.events[i];
  }
  addAnchors(Infinity);
  add(manifest.end_ns, manifest.events);
  return [ns.subarray(0, length), events.subarray(0, length)];
}

function between(xs, ys, x) {
  let low = firstBehind(xs, x) - 1;
  if (low < 0) return ys[0] ?? 0;
  if (low >= xs.length - 1 || xs[low] === x) return ys[Math.min(low, xs.length - 1)];
  return ys[low] + (x - xs[low]) / (xs[low + 1] - xs[low]) * (ys[low + 1] - ys[low]);
}

/* The first place in sorted numbers that is behind x. */
function firstBehind(sorted, x) {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = low + high >> 1;
    if (sorted[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

function eventOf(ns) {
  return between(data.knots[0], data.knots[1], ns);
}

function nsOfEvent(event) {
  return Math.round(between(data.knots[1], data.knots[0], event));
}

/* The series of a grouping: values[g][bucket] and their sums. */
function groupsOf(source, by, x) {
  return once(source, by + ' ' + x, async () => {
    const block = source.manifest.groups[by][KEY[x]];
    const columns = await read(block);
    const values = source.manifest.groups[by].series.map((_, g) => columns['s' + g]);
    const total = new Float64Array(block.rows);
    for (const series of values) for (let i = 0; i < block.rows; i++) total[i] += series[i];
    const names = source.manifest.groups[by].series.map(({ name }) => name);
    return { begin: block.begin, width: block.width, rows: block.rows, values, total, names };
  });
}

/* The anchor that is nearest to a moment; -1: there is none. */
function nearestAnchor(ns) {
  const behind = firstBehind(data.anchors.ns, ns);
  if (!behind) return data.anchors.rows ? 0 : -1;
  return behind < data.anchors.rows && data.anchors.ns[behind] - ns < ns - data.anchors.ns[behind - 1] ? behind : behind - 1;
}

const whyOf = (anchor) => WHY.filter(([bit]) => data.anchors.why[anchor] & bit).map(([, word]) => word).join(', ');

/* The rows of `lives` that were live at an anchor, in an array that the next call uses again. */
function liveAt(source, anchor) {
  const { alloc_ns: alloc, lived } = source.lives;
  const ns = source.anchors.ns[anchor];
  const rows = source.liveRows ??= new Uint32Array(alloc.length);
  const behind = firstBehind(alloc, ns);
  let length = 0;
  for (let i = 0; i < behind; i++) if (lived[i] === 0 || ns < alloc[i] + lived[i]) rows[length++] = i;
  return rows.subarray(0, length);
}

/* Which of the series of a grouping a life belongs to, as a table from what tells it; -1: none. */
function groupTable(source, by) {
  return once(source, 'table ' + by, () => {
    const { names, lives } = source;
    if (by === 'size') {
      const classes = source.manifest.groups[by].series.map((row) => row.least_bytes);
      const others = classes.indexOf(undefined);
      const cache = new Map();
      return (life) => {
        const least = lives.size[life] ? 2 ** Math.floor(Math.log2(lives.size[life])) : 0;
        if (!cache.has(least)) cache.set(least, classes.includes(least) ? classes.indexOf(least) : others);
        return cache.get(least);
      };
    }
    const told = by === 'frame' ? 'stack' : by;
    const table = names[told + 's'].map(({ series }) => series ?? -1);
    return (life) => table[lives[told][life]];
  });
}
