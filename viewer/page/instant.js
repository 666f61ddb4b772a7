'use strict';
// What was live at the cursor: exactly where it is at an anchor, else the sums of the bucket that it is in.

const BLOCKS = 50;

/* The anchor that the cursor is at; -1: it is between two. */
function anchorHere() {
  const anchor = nearestAnchor(view.at);
  return anchor >= 0 && data.anchors.ns[anchor] === view.at ? anchor : -1;
}

/* The live set of the anchor by the chosen grouping: bytes and count of each group, and the rows, the largest first. */
async function liveSet(anchor) {
  const { by } = view;
  const rows = Array.from(liveAt(data, anchor));
  if (!by) return { groups: [], rows };
  const groupOf = await groupTable(data, by);
  const groups = data.manifest.groups[by].series.map(({ name }) => ({ name, bytes: 0, count: 0 }));
  for (const life of rows) {
    const group = groups[groupOf(life)];
    if (!group) continue;
    group.bytes += data.lives.size[life];
    group.count++;
  }
  rows.sort((a, b) => data.lives.size[b] - data.lives.size[a]);
  return { groups, rows };
}

async function instantPart(what) {
  if (!data.lives || !['at', 'by', 'groups', 'rest', 'select'].some((word) => what.has(word))) return;
  const anchor = anchorHere();
  byId('instant-title').textContent = data.anchors.rows ? 'At ' + time(view.at, 1e3) : 'Instant';
  const content = !data.anchors.rows ? [make('p', { className: 'quiet' }, 'Nothing was ever live in this recording.')]
    : anchor >= 0 ? await exactInstant(anchor) : betweenInstants();
  if (anchor === anchorHere()) byId('instant-body').replaceChildren(...content);
}

async function exactInstant(anchor) {
  const { anchors, lives } = data;
  const { groups, rows } = await liveSet(anchor);
  const missing = anchors.count[anchor] - anchors.kept_count[anchor];
  const rest = rows.slice(BLOCKS);
  const restBytes = rest.reduce((sum, life) => sum + lives.size[life], 0);
  const content = [make('p', null, make('span', { className: 'badge' }, 'Exact'), ' ',
    make('span', { className: 'quiet' }, `instant ${count(anchor + 1)} of ${count(anchors.rows)}: ${whyOf(anchor)}`)),
  make('div', { className: 'big' }, bytes(anchors.bytes[anchor])),
  make('div', { className: 'quiet' }, plural(anchors.count[anchor], 'allocation') + ' live' + rivalText()),
  bars(groups.map((group, g) => ({ ...group, group: g })), anchors.bytes[anchor])];
  if (missing) {
    content.push(make('p', { className: 'quiet' }, `${plural(missing, 'allocation')} of at most ${bytes(anchors.least_bytes[anchor] - 1)}, ` +
      `${bytes(anchors.bytes[anchor] - anchors.kept_bytes[anchor])} together, are not in the page.`));
  }
  if (!rows.length) return content;
  content.push(make('h3', null, rows.length > BLOCKS ? `The ${BLOCKS} largest blocks` : 'The blocks'),
    make('div', { className: 'scroll', tabIndex: 0 }, blockTable(rows.slice(0, BLOCKS))));
  if (rest.length) content.push(make('p', { className: 'quiet' }, `and ${plural(rest.length, 'smaller one')} of ${bytes(restBytes)} together`));
  return content;
}

function blockTable(rows) {
  const { lives, names } = data;
  const where = (life) => {
    const tag = names.tags[lives.tag[life]];
    const { frames } = names.stacks[lives.stack[life]];
    const words = [tag.id ? tag.path : null, ...frames.slice(0, 6).map((frame) => names.frames[frame])].filter(Boolean);
    const stream = names.streams[lives.stream[life]];
    if (!words.length && names.threads.length + names.streams.length <= 4) return ['#' + lives.allocation_id[life]];
    return words.length ? words : [`${titledName('thread', names.threads[lives.thread[life]])}, ${titledName('stream', stream)}`];
  };
  return table(null, rows, [['size', (life) => bytes(lives.size[life]), 'n'], ['age', (life) => time(view.at - lives.alloc_ns[life]), 'n'],
    ['allocation', (life) => frameList(where(life), '#' + lives.allocation_id[life]), 'name']]);
}

const titledName = (kind, { name }) => (/^\d/.test(name) ? kind + ' ' + name : name);

function betweenInstants() {
  const series = data.series.time;
  const bucket = Math.min(series.rows - 1, Math.max(0, Math.floor((view.at - series.begin) / series.width)));
  const [least, most] = [series.levels[0].least[bucket], series.levels[0].most[bucket]];
  const anchor = nearestAnchor(view.at);
  const there = data.anchors.ns[anchor];
  const go = make('button', { type: 'button' }, `Go to the nearest exact instant, ${time(Math.abs(there - view.at))} ${there < view.at ? 'earlier' : 'later'}`);
  go.addEventListener('click', () => goTo(there));
  const content = [make('p', null, make('span', { className: 'badge between' }, 'Sums only'), ' ',
    make('span', { className: 'quiet' }, 'between two exact instants')),
  make('div', { className: 'big' }, least === most ? bytes(most) : `${bytes(least)} – ${bytes(most)}`),
  make('div', { className: 'quiet' }, `live within these ${time(series.width)}` + rivalText()), make('p', null, go)];
  if (stack) {
    const place = axis().of(view.at);
    const at = Math.min(stack.rows - 1, Math.max(0, Math.floor((place - stack.begin) / stack.width)));
    content.push(make('p', { className: 'quiet' }, `By group, at the highest moment of the ${view.x === 'time' ? time(stack.width)
      : plural(stack.width, 'event')} around it:`), bars(stack.values.map((values, group) => ({ bytes: values[at], group, name: stack.names[group] })), stack.total[at]));
  }
  return content;
}

function rivalText() {
  if (!rival) return '';
  const at = view.at - data.begin + rival.begin;
  const [least, most] = extremes(rival.series.time, at, at);
  return `; in the second trace ${at > rival.end ? 'it has ended' : least === most ? bytes(most) : bytes(least) + ' to ' + bytes(most)}`;
}

/* Groups as bars, each with what the peak would have been without it where that is known. */
function bars(groups, total) {
  const without = new Map((data.reports?.peak?.groups ?? []).map((row) => [nameOf(row), row.peak_without_bytes]));
  const isPeak = data.manifest.peak?.ns === view.at;
  const items = groups.filter((group) => group.bytes > 0).sort((a, b) => b.bytes - a.bytes).map(({ bytes: size, count: blocks, group, name }) => {
    const fill = make('i');
    fill.style.width = size / total * 100 + '%';
    fill.style.backgroundColor = groupColour(group);
    const words = [share(size / total), blocks === undefined ? null : plural(blocks, 'block'),
      isPeak && without.has(name) ? `peak without it: ${bytes(without.get(name))}` : null].filter(Boolean);
    return make('li', null, make('div', { className: 'row' }, make('span', { title: name ?? '' }, name || '(none)'),
      make('span', { className: 'figures' }, bytes(size))), make('span', { className: 'meter' }, fill), make('small', null, words.join(' · ')));
  });
  return make('ul', { className: 'bars' }, items);
}
