'use strict';
// The selected rank: its usage beside that of all ranks, its groups beside the median's, its failures and marks.

const KIND_WORDS = { tag: 'tag', function: 'function', class: 'size' };

/* For each pixel: what the rank had, and the lowest, the median and the highest of all. NaN: not known. */
function oneColumns(width) {
  const pixels = Math.max(1, Math.floor(width - LEFT - RIGHT));
  const { first, last } = heatColumns(pixels);
  const { least, median, most } = grid();
  const row = job.memory.rowOf.get(view.rank) ?? -1;
  const columns = Object.fromEntries(['own', 'least', 'median', 'most'].map((name) => [name, new Float64Array(pixels).fill(NaN)]));
  for (let i = 0; i < pixels; i++) {
    for (let b = first[i]; b >= 0 && b <= last[i]; b++) {
      if (Number.isNaN(median[b])) continue;
      const own = cellAt(grid(), row, b);
      if (!(columns.own[i] >= own)) columns.own[i] = Number.isNaN(own) ? columns.own[i] : own;
      if (!(columns.least[i] <= least[b])) columns.least[i] = least[b];
      if (!(columns.median[i] >= median[b])) columns.median[i] = median[b];
      if (!(columns.most[i] >= most[b])) columns.most[i] = most[b];
    }
  }
  return columns;
}

/* A line of steps; it is broken where nothing is known. */
function traceLine(pen, values, y) {
  pen.beginPath();
  for (let i = 0, drawing = false; i < values.length; i++) {
    if (Number.isNaN(values[i])) {
      drawing = false;
      continue;
    }
    if (drawing) pen.lineTo(LEFT + i, y(values[i]));
    else pen.moveTo(LEFT + i, y(values[i]));
    pen.lineTo(LEFT + i + 1, y(values[i]));
    drawing = true;
  }
  pen.stroke();
}

function drawOne() {
  const { pen, width, height } = begin(byId('one-canvas'));
  const bottom = height - AXIS;
  const columns = oneColumns(width);
  const most = columns.most.reduce((high, value) => (value > high ? value : high), 1) * 1.04;
  const y = (value) => bottom - value / most * (bottom - TOP);
  drawBytesAxis(pen, width, bottom, most, y);
  pen.save();
  pen.beginPath();
  pen.rect(LEFT, 0, width - LEFT - RIGHT, bottom);
  pen.clip();
  pen.fillStyle = theme.low;
  columns.most.forEach((value, i) => {
    if (!Number.isNaN(value)) pen.fillRect(LEFT + i, y(value), 1, Math.max(1, y(columns.least[i]) - y(value)));
  });
  pen.strokeStyle = theme.rule;
  traceLine(pen, columns.most, y);
  traceLine(pen, columns.least, y);
  pen.strokeStyle = theme.quiet;
  pen.setLineDash([5, 4]);
  pen.lineWidth = 1.5;
  traceLine(pen, columns.median, y);
  pen.setLineDash([]);
  pen.strokeStyle = theme.accent;
  pen.lineWidth = 2;
  traceLine(pen, columns.own, y);
  pen.lineWidth = 1;
  const x = Math.round(spotX(width)) + .5;
  pen.strokeStyle = theme.ink;
  pen.beginPath();
  pen.moveTo(x, TOP);
  pen.lineTo(x, bottom);
  pen.stroke();
  if (view.x === 'time') drawOneFailures(pen, width, bottom);
  pen.restore();
  if (view.x === 'time') drawOneMarks(pen, width);
  drawAxis(pen, width, bottom);
}

function drawOneFailures(pen, width, bottom) {
  pen.fillStyle = theme.bad;
  for (const { rank, ns } of failuresHere()) if (rank === view.rank) pen.fillRect(xOf(jobTime(rank, ns), width) - 1, TOP, 2, bottom - TOP);
}

function drawOneMarks(pen, width) {
  let free = LEFT;
  pen.textAlign = 'left';
  pen.fillStyle = theme.warn;
  for (const mark of job.marks) {
    const x = Math.round(xOf(jobTime(mark.rank, mark.ns), width));
    if (mark.rank !== view.rank || x < LEFT || x > width - RIGHT) continue;
    pen.fillRect(x, x >= free ? 2 : TOP - 5, 1, x >= free ? TOP + 6 : 8);
    if (x < free) continue;
    const text = fitted(pen, mark.text ?? 'mark', Math.min(140, width - RIGHT - x - 6));
    pen.fillText(text, x + 4, 9);
    free = x + pen.measureText(text).width + 16;
  }
}

function oneWords(at) {
  const b = bucketAt(at);
  const row = job.memory.rowOf.get(view.rank) ?? -1;
  const own = cellAt(grid(), row, b);
  if (Number.isNaN(grid().median[b])) return [spotWords(at), 'nothing is recorded of any rank'];
  return [spotWords(at), `rank ${view.rank}: ${Number.isNaN(own) ? 'not recorded' : bytes(own)}`, `median ${bytes(grid().median[b])}`,
    `all: ${bytes(grid().least[b])} to ${bytes(grid().most[b])}`];
}

/* The name of a trace as a shell takes it, and as a command takes it for no option. */
function quoted(name) {
  const path = name.startsWith('-') ? './' + name : name;
  return /^[\w@%+=:,./-]+$/.test(path) ? path : "'" + path.replaceAll("'", "'\\''") + "'";
}

/* How far from 0 a difference is for certain, with its sign; 0: it may be 0. */
const certain = (least, most) => (least > 0 ? least : most < 0 ? most : 0);

/* A difference from the median, or its two ends, in the colours of the heat map. */
function beside(least, most = least) {
  if (least === null) return '–';
  const sure = certain(least, most);
  return make('span', { className: sure > 0 ? 'over' : sure < 0 ? 'under' : '' }, signedBetween(least, most));
}

/* Since which step a group of `tidemark ranks` differs from the median. */
function sinceWords({ from_step_earliest: earliest, from_step_latest: latest }) {
  if (latest === null) return '';
  if (latest < 0) return ' from the begin on';
  if (earliest === latest) return ` from step ${number(latest)} on`;
  return earliest < 0 ? ` from the begin or a step up to ${number(latest)} on` : ` from a step between ${number(earliest)} and ${number(latest)} on`;
}

/* By how much a rank grows in each step; null: not known. */
const growthOf = (rank) => job.memory.figures.get(rank)?.step_bytes ?? null;

/* What is said of a figure that the page has of all memories alone. */
const ofAllMemories = () => (data.manifest.memories.length > 1 ? 'in all memories' : '');

const stepText = (step) => (step === null ? null : step < 0 ? 'before the first step' : 'in step ' + number(step));

function fillOne() {
  const rank = job.byRank.get(view.rank);
  const figures = job.memory.figures.get(view.rank);
  byId('one-title').textContent = 'Rank ' + view.rank;
  byId('one-of').textContent = rank?.hostname ? shortened(rank.hostname, 60) : '';
  if (!rank) {
    byId('one-body').replaceChildren(make('p', { className: 'word' }, 'This rank is missing: the file of the job does not have it.'));
    return;
  }
  const failures = job.failures.filter(({ rank: whose, memory }) => whose === view.rank && (memory === null || memory === job.memory.place));
  const marks = job.marks.filter((row) => row.rank === view.rank);
  const shown = failures.map((row) => ({ ...row, at: jobTime(row.rank, row.ns), words: (row.text ?? row.status) + (row.memory === null ? ' (another memory)' : '') }));
  const growth = growthOf(view.rank);
  byId('one-body').replaceChildren(...[rank.complete ? null : make('p', { className: 'word' }, `The trace of this rank is incomplete` +
    (rank.lost_events ? `: ${plural(rank.lost_events, 'event')} lost.` : '.')),
  rank.start_known ? null : make('p', { className: 'word' }, 'It is not known when this trace began: it is placed with the first of the others.'),
  figures ? facts([['peak', bytes(figures.peak_bytes), stepText(figures.step) ?? 'at ' + time(jobTime(view.rank, figures.peak_ns))],
    ['beside the median', beside(figures.over_median_bytes), figures.over_median_share === null ? '' : share(figures.over_median_share)],
    figures.reserved_peak_bytes === null ? null : ['reserved at most', bytes(figures.reserved_peak_bytes)],
    ['live at the end', bytes(figures.live_bytes)], growth === null ? null : ['growth a step', signed(growth)],
    ['allocations', count(rank.allocations), ofAllMemories()],
    ['failures', count(figures.failures), rank.failures > figures.failures ? `of ${count(rank.failures)} in all memories` : ''], ['lost events', count(rank.lost_events)], ['ended', rank.ended]])
    : make('p', { className: 'quiet' }, 'This rank has nothing of this memory.'),
  ...listed('Failures', shown, 'at: time at | size: bytes size | cause: text cause | live: bytes live_bytes | words: text words | tag: text tag'),
  ...listed('Marks', marks.map((row) => ({ ...row, at: jobTime(row.rank, row.ns) })), 'at: time at | text: text text'),
  ...(rank.trace === null ? [] : titled('Its trace', make('code', { className: 'line' }, `tidemark report -o rank-${view.rank}.html ${quoted(rank.trace)}`)))]
    .filter(Boolean));
}

/* The kinds of groups that the job has. */
const kindsOf = () => Object.keys(KIND_WORDS).filter((kind) => job.memory.groups.some((group) => group.kind === kind));

/* What the rank has of each group at its peak, and the median at theirs; the largest differences first. */
function groupRows() {
  const { shares, groups, rowOf, report } = job.memory;
  const row = rowOf.get(view.rank);
  const steps = new Map(report.rank === view.rank ? report.groups.map((group) => [group.kind + ' ' + group.name, sinceWords(group)]) : []);
  const rows = [];
  for (let i = row === undefined ? shares.rows : firstBehind(shares.row, row - 1); i < shares.rows && shares.row[i] === row; i++) {
    const group = groups[shares.group[i]];
    if (group.kind !== view.kind) continue;
    const { name, median_least_bytes: least, median_most_bytes: most } = group;
    rows.push({ name, bytes: shares.bytes[i], median: [least, most], over: [shares.bytes[i] - most, shares.bytes[i] - least], from: steps.get(group.kind + ' ' + name) ?? '' });
  }
  return rows;
}

function fillGroups() {
  if (!kindsOf().includes(view.kind)) view.kind = kindsOf()[0] ?? 'class';
  options('kind', kindsOf(), KIND_WORDS);
  byId('kind').value = view.kind;
  byId('kind-label').hidden = kindsOf().length < 2;
  const rows = groupRows();
  const brief = toldApart(rows.map((row) => row.name), 40);
  const name = ({ name: whole, from }) => [make('span', { title: whole }, brief(whole)), from === '' ? null : make('small', { className: 'quiet' }, from)];
  const named = [KIND_WORDS[view.kind], (row) => make('span', null, name(row).filter(Boolean)), 'name'];
  byId('groups-body').replaceChildren(...(rows.length ? [make('p', { className: 'quiet' }, `Rank ${view.rank} at its peak, and the median of ranks at theirs`),
    scrolled(table(null, rows, [named, ['bytes', (row) => bytes(row.bytes), 'n'], ['median', (row) => bytesBetween(...row.median), 'n'],
      ['over', (row) => beside(...row.over), 'n']]))]
    : none('Nothing of this rank is in the file.')));
}

function onePart(what) {
  drawOne();
  const words = oneWords(spot()).join(', ');
  byId('one-canvas').setAttribute('aria-label', 'Live bytes of the selected rank, between the lowest and the highest of all ranks. ' + words);
  if (!(what.has('rank') || what.has('memory') || what.has('kind') || what.has('rest'))) return;
  const rule = (kind, text) => make('li', { className: 'rule ' + kind }, make('i'), text);
  byId('one-legend').replaceChildren(rule('own', 'rank ' + view.rank), rule('median', 'median'), rule('band', 'lowest to highest'));
  fillOne();
  fillGroups();
}
