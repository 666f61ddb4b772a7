'use strict';
// The address map: a row for each page that was ever used, on the axis of the timeline. A colour says how much of a page
// was occupied, or, of the allocations that the page knows, their group or their age.

const MAP_COLOURS = { occupied: 'share occupied', group: 'group', age: 'age' };
const MAP_ROWS = 'rows are pages, in the order of addresses';
/* The whole recording, and the window as it last rested, which lies over it: lives are too many to paint at each frame. */
const mapImages = { whole: {}, detail: {}, by: '', groupOf: () => -1 };

function mapColumns() {
  const map = data.map[view.x];
  const block = data.manifest.map[KEY[view.x]];
  return { ...block, share: map.share };
}

const mapStyle = () => [view.colour, view.x, view.colour === 'occupied' ? '' : mapImages.by, theme.low].join();
const mapStarts = () => once(data, 'starts', () => data.manifest.map.row_address.map(Number));

/* An image of what lies between two positions, a pixel a cell, unless it is that already. */
function paintMap(image, from, to, across, paint) {
  const style = mapStyle();
  if (image.style === style && image.from === from && image.to === to) return;
  Object.assign(image, { style, from, to });
  const canvas = image.canvas ??= make('canvas');
  canvas.width = Math.max(1, across);
  canvas.height = Math.max(1, data.manifest.map.rows);
  const pen = canvas.getContext('2d');
  const picture = pen.createImageData(canvas.width, canvas.height);
  paint(new Uint32Array(picture.data.buffer), from, to, across);
  pen.putImageData(picture, 0, 0);
}

function paintWhole() {
  const { begin: from, width: each, buckets } = mapColumns();
  if (view.colour === 'occupied') paintMap(mapImages.whole, from, from + each * buckets, buckets, paintShares);
  else paintMap(mapImages.whole, axis().begin, axis().end, 1024, paintLives);
}

/* Once the window rests. */
function sharpenMap() {
  if (view.colour !== 'occupied') paintMap(mapImages.detail, view.from, view.to, 1024, paintLives);
  drawMap();
}

function paintShares(cells) {
  const colours = ramp(theme.low, theme.high);
  const { share } = mapColumns();
  const steps = Array.from({ length: 16 }, (_, i) => (i ? colours[Math.round(48 + i * 207 / 15)] : pixel(channels(theme.ground))));
  for (let i = 0; i < share.length; i++) cells[i] = steps[share[i]];
}

function paintLives(cells, begin, end, across) {
  const { lives, manifest } = data;
  const { page_bytes: page, rows } = manifest.map;
  const starts = mapStarts();
  const colourOf = lifeColour();
  cells.fill(pixel(channels(theme.ground)));
  const scale = across / (end - begin);
  for (let i = 0; i < lives.rows; i++) {
    const from = axis().of(lives.alloc_ns[i]);
    if (from > end) continue;
    const to = lives.lived[i] ? axis().of(lives.alloc_ns[i] + lives.lived[i] - 1) : axis().end;
    if (to < begin) continue;
    const a = Math.max(0, Math.floor((from - begin) * scale));
    const b = Math.min(across - 1, Math.floor((to - begin) * scale));
    const address = lives.address_high[i] * 2 ** 32 + lives.address_low[i];
    for (let row = firstBehind(starts, address) - 1; row >= 0 && row < rows && starts[row] < address + lives.size[i]; row++) {
      if (starts[row] + page <= address) continue;
      for (let x = a; x <= b; x++) cells[row * across + x] = colourOf(i, x / scale + begin);
    }
  }
}

function lifeColour() {
  if (view.colour === 'group') {
    const colours = GROUP_COLOURS.map((colour) => pixel(channels(colour)));
    const unknown = pixel(channels(theme.quiet));
    return (life) => colours[mapImages.groupOf(life) % colours.length] ?? unknown;
  }
  const colours = ramp(theme.high, theme.low);
  const whole = Math.log2(Math.max(2, axis().end - axis().begin));
  return (life, at) => colours[Math.max(0, Math.min(200, Math.round(Math.log2(Math.max(1, at - axis().of(data.lives.alloc_ns[life])))
    / whole * 200)))];
}

function drawMap() {
  if (!data.map) return;
  const { pen, width, height } = begin(byId('map-canvas'));
  const bottom = height - AXIS;
  paintWhole();
  pen.imageSmoothingEnabled = false;
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT - RIGHT, bottom);
  pen.clip();
  for (const { style, canvas, from, to } of [mapImages.whole, mapImages.detail]) {
    const x = xOf(from, width);
    if (style === mapStyle()) pen.drawImage(canvas, x, 0, xOf(to, width) - x, bottom);
  }
  drawCursor(pen, width, 0, bottom);
  pen.restore();
  drawAddresses(pen, bottom);
  drawAxis(pen, width, bottom);
}

/* A tick at each gap between pages, and a few addresses: the digits in which they differ. */
function drawAddresses(pen, bottom) {
  const { rows, row_address: first, page_bytes: page } = data.manifest.map;
  const starts = mapStarts();
  const each = bottom / rows;
  const label = once(data, 'labels', () => addressLabels(first));
  pen.textAlign = 'right';
  let free = 0;
  for (let row = 0; row < rows; row++) {
    const gap = row && starts[row] !== starts[row - 1] + page;
    if (gap) {
      pen.fillStyle = theme.quiet;
      pen.fillRect(LEFT - 7, Math.round(row * each), 6, 1);
    }
    const y = Math.max(8, row * each + 2);
    if ((row && !gap && y < free + 34) || y < free || y > bottom - 4) continue;
    pen.fillStyle = theme.quiet;
    pen.fillText(label(first[row]), LEFT - 10, y);
    free = y + 16;
  }
}

function addressLabels(texts) {
  const longest = Math.max(...texts.map((text) => text.length)) - 2;
  const full = texts.map((text) => text.slice(2).padStart(longest, '0'));
  let [same, zeros] = [0, 0];
  while (same < longest - 1 && full.every((text) => text[same] === full[0][same])) same++;
  while (zeros < longest - same - 1 && full.every((text) => text[longest - 1 - zeros] === '0')) zeros++;
  return (text) => {
    const digits = text.slice(2).padStart(longest, '0').slice(same, longest - zeros).slice(0, 6);
    return (same ? '…' : '') + digits + (same + digits.length < longest ? '…' : '');
  };
}

function mapTip(x, y) {
  const { rows, row_address: first, page_bytes: page } = data.manifest.map;
  const height = byId('map-canvas').clientHeight - AXIS;
  const row = Math.floor(y / height * rows);
  if (row < 0 || row >= rows) return null;
  const at = atX(x, byId('map-canvas').clientWidth);
  const { begin: from, width: each, buckets, share: shares } = mapColumns();
  const column = Math.floor((at - from) / each);
  const cell = column >= 0 && column < buckets ? shares[row * buckets + column] : 0;
  const lines = [`${first[row]}, ${bytes(page)}`, cell === 0 ? 'never occupied then' : cell === 15 ? 'wholly occupied at some moment'
    : `up to ${Math.round(cell / 14 * 100)}% occupied`, view.x === 'time' ? time(at, each) : 'event ' + number(at)];
  return [...lines, ...chunkLines(Number(first[row]), page)];
}

/* What the report of fragmentation knows of the chunks in a page. */
function chunkLines(address, page) {
  const { chunks = [], pins = [] } = data.reports?.fragmentation ?? {};
  const inside = (row) => row.chunk < address + page && row.chunk + row.chunk_bytes > address;
  const chunk = chunks.find(inside);
  if (!chunk) return [];
  const pin = pins.find((row) => row.chunk === chunk.chunk);
  return [`At ${time(data.reports.fragmentation.moments?.[0]?.ns)}: chunk of ${bytes(chunk.chunk_bytes)}, ${plural(chunk.live_count, 'block')}, ` +
    `${bytes(chunk.free_bytes)} free in ${plural(chunk.holes, 'hole')}`, ...(pin ? ['pinned by ' + pin.pinned_by] : [])];
}

function describeMap() {
  const { rows, page_bytes: page } = data.manifest.map;
  byId('map-canvas').setAttribute('aria-label', `Address map: ${plural(rows, 'page')} of ${bytes(page)} that were used, one below the ` +
    `other, over the axis of the timeline; the colour is the ${MAP_COLOURS[view.colour]}.`);
  if (!byId('map-table').parentElement.open) return;
  const { buckets, share: cells } = mapColumns();
  const list = Array.from({ length: Math.min(rows, 1024) }, (_, row) => {
    const codes = cells.subarray(row * buckets, (row + 1) * buckets);
    return { row, most: Math.max(...codes), used: codes.reduce((sum, code) => sum + (code > 0), 0) / buckets };
  });
  byId('map-table').replaceChildren(table('The pages, ' + bytes(page) + ' each', list, [
    ['address', ({ row }) => data.manifest.map.row_address[row]], ['occupied for', ({ used }) => share(used), 'n'],
    ['most occupied', ({ most }) => (most === 15 ? '100%' : Math.round(most / 14 * 100) + '%'), 'n']]));
}

async function mapPart(what) {
  if (!data.map) return;
  if (what.has('rest') || what.has('theme') || what.has('by') || what.has('colour')) {
    if (view.by) Object.assign(mapImages, { by: view.by, groupOf: await groupTable(data, view.by) });
    const ends = view.colour === 'age' ? ['new', make('i'), 'old'] : ['free', make('i'), 'full'];
    byId('map-scale').replaceChildren(...(view.colour === 'group' ? ['colours as above'] : ends));
    byId('map-scale').querySelector('i')?.style.setProperty('transform', view.colour === 'age' ? 'scaleX(-1)' : 'none');
    byId('map-by').value = view.colour;
  }
  drawMap();
}
