'use strict';
// The verdict, the table of all ranks, and what `tidemark ranks` says of them.

/* [title, what a line has, how it is shown, 'n' for numbers]; the first click on numbers shows the largest first. */
const RANK_COLUMNS = [
  ['rank', (line) => line.rank, (value) => number(value), 'n'],
  ['peak', (line) => line.figures?.peak_bytes ?? null, bytes, 'n'],
  ['over median', (line) => line.figures?.over_median_bytes ?? null, beside, 'n'],
  ['live at the end', (line) => line.figures?.live_bytes ?? null, bytes, 'n'],
  ['growth a step', (line) => growthOf(line.rank), (value) => (value === null ? '–' : signed(value)), 'n'],
  ['failures', (line) => line.figures?.failures ?? null, count, 'n'],
  ['lost', (line) => line.of?.lost_events ?? null, count, 'n'],
  ['host', (line) => line.of?.hostname ?? null, (value) => value ?? '–', 'name'],
  ['state', (line) => stateOf(line), (value) => value, ''],
];
const TABLE_ROWS = 512;
const sorting = { column: 1, down: true };

function stateOf({ of }) {
  if (!of) return 'missing';
  return of.complete ? of.ended ?? 'complete' : 'incomplete';
}

/* Unknown values stand last, whatever the order. */
function sortedLines() {
  const value = RANK_COLUMNS[sorting.column][1];
  const all = linesOf().map((line) => ({ ...line, of: job.byRank.get(line.rank), figures: job.memory.figures.get(line.rank) }));
  const order = (a, b) => (typeof a === 'string' ? a.localeCompare(b, 'en', { numeric: true }) : a - b) * (sorting.down ? -1 : 1);
  return all.map((line) => [value(line), line]).sort(([a, one], [b, other]) => (a === null) - (b === null) || (a === null ? 0 : order(a, b)) ||
    one.rank - other.rank).map(([, line]) => line);
}

function fillRanks() {
  const all = sortedLines();
  const limit = printing ? PRINTED_ROWS : TABLE_ROWS;
  const head = RANK_COLUMNS.map(([title, , , kind], place) => {
    const chosen = place === sorting.column;
    const button = make('button', { type: 'button' }, title + (chosen ? (sorting.down ? ' ↓' : ' ↑') : ''));
    button.addEventListener('click', () => {
      Object.assign(sorting, { column: place, down: chosen ? !sorting.down : kind === 'n' && place > 0 });
      fillRanks();
      byId('ranks-body').querySelectorAll('th button')[place].focus();
    });
    const cell = make('th', { scope: 'col', className: kind }, button);
    if (chosen) cell.setAttribute('aria-sort', sorting.down ? 'descending' : 'ascending');
    return cell;
  });
  const body = all.slice(0, limit).map((line) => {
    const row = make('tr', { 'aria-selected': String(line.rank === view.rank), className: line.of?.complete ? '' : 'lacks' },
      RANK_COLUMNS.map(([, value, shown, kind]) => make('td', { className: kind }, shown(value(line)))));
    row.dataset.rank = line.rank;
    return row;
  });
  const more = all.length > limit ? make('tr', null, make('td', { colSpan: RANK_COLUMNS.length, className: 'quiet' }, `and ${count(all.length - limit)} more`)) : null;
  const list = make('table', null, make('thead', null, make('tr', null, head)), make('tbody', null, body, more));
  list.addEventListener('click', (event) => {
    const row = event.target.closest('tr[data-rank]');
    if (row) selectRank(Number(row.dataset.rank));
  });
  byId('ranks-body').replaceChildren(scrolled(list));
}

function markRank() {
  for (const row of byId('ranks-body').querySelectorAll('tr[data-rank]')) row.setAttribute('aria-selected', String(Number(row.dataset.rank) === view.rank));
}

/* Of a group of `tidemark ranks`: by how much the rank differs from the median for certain. */
const differs = (row) => certain(row.over_median_least_bytes, row.over_median_most_bytes);

/* What the outlier has more than the median, which ranks grow, what failed, what is missing. */
function fillFindings() {
  const { report } = job.memory;
  const { manifest } = data;
  const { memories } = manifest;
  const step = (value) => (value === null ? '–' : value < 0 ? 'the begin' : count(value));
  const steps = (one, other) => (one === other ? step(one) : `${step(one)} to ${step(other)}`);
  const groups = report.groups.filter(differs).map((row) => ({ ...row, kind: KIND_WORDS[row.kind] ?? row.kind, name: row.name ?? '(hidden)',
    own: [row.bytes ?? 0, row.most_bytes], median: [row.median_least_bytes, row.median_most_bytes], over: [row.over_median_least_bytes, row.over_median_most_bytes],
    step: steps(row.from_step_earliest, row.from_step_latest), place: Object.keys(KIND_WORDS).indexOf(row.kind) })).sort((a, b) => a.place - b.place);
  const failed = report.failed.map((row) => ({ ...row, at: jobTime(row.first_rank, row.first_ns), words: row.text ?? row.status }));
  byId('findings-body').replaceChildren(...[...listed(`What rank ${report.rank} has more or less than the median`, groups, 'by: text kind | group: text name | ' +
    'bytes: range own | median: range median | over median: changes over | from step: text step | count: count count | peak without: bytes peak_without_bytes'),
  ...listed('Ranks that grow more than the median, from step to step', report.growth, 'rank: count rank | grown: change grown_bytes | a step: change step_bytes | median: change median_bytes | ' +
    'from step: count first_step | to step: count last_step | risen in: count steps_risen | of it: bytes group_bytes | in: text group'),
  ...listed('Failures, the most frequent first', failed, 'count: count count | ranks: count ranks | cause: text cause | layer: text layer | first on rank: count first_rank | ' +
    `at: time at | size: bytes size | live: bytes live_bytes | tag: text tag | ${memories.length > 1 ? 'memory: text memory | ' : ''}words: text words`),
  ...listed('Memory', report.memories, 'memory: text memory | ranks: count ranks | highest peak: bytes highest_bytes'),
  ...listed('Traces that were left out', report.left_out, 'trace: text path | why: text reason'),
  ...(report.missing ? titled('Missing ranks', make('p', { className: 'word' }, report.missing)) : []),
  ...(manifest.left_out.length ? titled('What the page lacks', make('ul', null, manifest.left_out.map((text) => make('li', null, text)))) : []),
  ...titled('About', facts([['job', report.job], ['file', manifest.file], ['ranks', count(report.ranks), report.world_size ? 'of ' + count(report.world_size) : ''],
    ['memory', job.memory.name], ['steps', manifest.steps], ['detail', manifest.detail], ['made by', 'tidemark ' + manifest.version]].filter(([, value]) => value), 'about'))]
    .filter(Boolean));
}

function fillRanksVerdict() {
  const { report } = job.memory;
  const { manifest } = data;
  const bad = (there, text) => (there ? make('li', { className: 'bad' }, text) : null);
  const link = (text, rank) => {
    const element = make('a', { href: '#heat' }, text);
    element.addEventListener('click', (event) => {
      event.preventDefault();
      selectRank(rank);
      goToPeak();
    });
    return make('li', null, element);
  };
  const plain = (text) => make('li', { className: 'plain' }, text);
  const group = report.groups.find((row) => row.named);
  const [growing] = report.growth;
  const [failed] = report.failed;
  /* Of the first memory the answer of `ranks` has the failures of all. */
  const failures = [plural(report.failures, 'failure'), job.memory.place ? '' : ofAllMemories()].filter(Boolean).join(' ');
  byId('verdict').replaceChildren(...[bad(!manifest.complete, 'The merge did not come to its end'),
    bad(report.missing_count, `${plural(report.missing_count, 'rank')} missing: ${shortened(report.missing ?? '', 60)}`),
    bad(report.incomplete, `${plural(report.incomplete, 'rank')} incomplete`), bad(report.left_out.length, `${plural(report.left_out.length, 'trace')} left out`),
    plain(`${plural(report.ranks, 'rank')}${report.world_size ? ' of ' + count(report.world_size) : ''}`),
    link(`Highest ${bytes(report.highest_bytes)}, rank ${report.highest_rank}: ${share(report.skew_share)} over the median`, report.highest_rank),
    link(`Median ${bytes(report.median_bytes)}, rank ${report.median_rank}`, report.median_rank),
    link(`Lowest ${bytes(report.lowest_bytes)}, rank ${report.lowest_rank}`, report.lowest_rank),
    group ? link(`Rank ${report.rank}: ${signedBetween(group.over_median_least_bytes, group.over_median_most_bytes)} in ${shortened(group.name ?? 'a ' + KIND_WORDS[group.kind], 60)}${sinceWords(group)}`, report.rank) : null,
    growing ? link(`Rank ${growing.rank} ${report.growth.length > 1 ? 'and others grow' : 'alone grows'}: ${signed(growing.grown_bytes)}`, growing.rank) : null,
    failed ? bad(true, `${failures}: ${failed.cause}, first on rank ${failed.first_rank}`) : plain(failures)].filter(Boolean));
}

function tablesPart(what) {
  if (what.has('memory') || what.has('rest')) {
    fillRanksVerdict();
    fillRanks();
    fillFindings();
  } else if (what.has('rank')) {
    markRank();
  }
}
