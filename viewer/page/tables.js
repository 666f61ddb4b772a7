'use strict';
// The verdict, the selected range, and the tabs: tables of what the commands print with --json.

const PRINTED_ROWS = 40;
const SHOWN_ROWS = 200;
const SHOWN_FRAMES = 64;   /* a stack of 20,000 frames made a renderer of 1.2 GB */

/* A table: columns are [title, text or element of a row, 'n' for numbers or 'name']. */
function table(caption, rows, cells) {
  const head = make('tr', null, cells.map(([title, , kind]) => make('th', { scope: 'col', className: kind ?? '' }, title)));
  const limit = printing ? PRINTED_ROWS : SHOWN_ROWS;
  const body = rows.slice(0, limit).map((row) => make('tr', null, cells.map(([, cell, kind]) =>
    make('td', { className: kind ?? '' }, cell(row)))));
  const more = rows.length > limit ? make('tr', null, make('td', { colSpan: cells.length, className: 'quiet' },
    `and ${count(rows.length - limit)} more`)) : null;
  return make('table', null, caption ? make('caption', null, caption) : null, make('thead', null, head), make('tbody', null, body, more));
}

const scrolled = (element) => make('div', { className: 'scroll', tabIndex: 0 }, element);
const titled = (title, ...content) => [make('h3', null, title), ...content];
const none = (text) => [make('p', { className: 'quiet' }, text)];

/* Rows under a heading; nothing where there are none. */
function listed(title, rows, text) {
  return rows?.length ? titled(title, scrolled(table(null, rows, columns(text)))) : [];
}

function frameList(words, title) {
  const parts = (word) => word.split(/(?<=[/.])/).flatMap((part) => [part, make('wbr')]);   /* where a line may end */
  const more = words.length > SHOWN_FRAMES ? make('li', null, `and ${count(words.length - SHOWN_FRAMES)} more`) : null;
  return make('ol', { title: title ?? '' }, words.slice(0, SHOWN_FRAMES).map((word) => make('li', null, parts(word))), more);
}

/* How a column shows a value; `right` those that stand at the right edge. */
const SHOWN = { bytes, count, share, time, moment: (ns) => moment(ns), meter: (part) => meter(part), text: (value) => value ?? '–',
  frames: (value) => (value ? frameList(value) : '–'), plus: (value) => (value === null ? '' : '+' + bytes(value)),
  change: (value) => signed(value), range: ([least, most]) => bytesBetween(least, most), changes: ([least, most]) => signedBetween(least, most), address: (value) => '0x' + value.toString(16),
  until: (ns) => (ns === null ? 'the end' : moment(ns)) };
const RIGHT_ALIGNED = ['bytes', 'count', 'share', 'time', 'moment', 'meter', 'plus', 'change', 'range', 'changes', 'until'];

/* Columns of rows of JSON: 'title: how field | ...'; `name` alone is what the group is called. */
function columns(text) {
  return text.split(' | ').map((column) => {
    if (column === 'name') return ['name', (row) => (row.callstack ? frameList(row.callstack) : row.name ?? '(none)'), 'name'];
    const [, title, how, field] = /^(.*): (\w+) (\w+)$/.exec(column);
    const cell = (row) => {
      if (row[field] === undefined) data.missing.add(field);
      return SHOWN[how](row[field]);
    };
    return [title, cell, RIGHT_ALIGNED.includes(how) ? 'n' : how === 'text' || how === 'frames' ? 'name' : ''];
  });
}

function meter(part, text) {
  const fill = make('i');
  fill.style.width = Math.max(0, Math.min(1, part ?? 0)) * 100 + '%';
  return [text ?? share(part), make('span', { className: 'meter' }, fill)];
}

/* A moment that a click goes to. */
function moment(ns) {
  if (ns === null || ns === undefined) return '–';
  const link = make('a', { href: '#timeline' }, time(ns));
  link.addEventListener('click', (event) => {
    event.preventDefault();
    goTo(ns);
    byId('timeline').scrollIntoView();
  });
  return link;
}

function facts(pairs, kind) {
  return make('dl', { className: 'facts ' + (kind ?? '') }, pairs.filter((pair) => pair).map(([name, value, more]) =>
    make('div', null, make('dt', null, name), make('dd', null, value, more ? make('small', null, ' ' + more) : null))));
}

function peakTab({ peak }) {
  if (!peak || peak.peak_ns === null) return none('Nothing was ever live.');
  return [facts([['peak', bytes(peak.peak_bytes)], ['at', moment(peak.peak_ns)], ['allocations live', count(peak.at_count)],
    ['near the peak', time(peak.near_peak_ns), `in ${plural(peak.plateaus_count, 'time')}`],
    peak.step ? ['training step', count(peak.step), peak.pass ?? ''] : null]),
  ...listed('What the memory is', peak.training, 'kind: text kind | bytes: bytes bytes | share: meter share | what says so: text what'),
  ...listed('What was live at the peak, and what the peak would have been without it', peak.groups,
    'name | live: bytes at_bytes | share: meter at_share | count: count at_count | peak without: bytes peak_without_bytes | saved: bytes saved_bytes'),
  ...listed('Modules', peak.modules, 'module: text module | bytes: bytes bytes | activations: bytes activations_bytes | ' +
    'gradients: bytes gradients_bytes | parameters: bytes parameters_bytes | workspace: bytes workspace_bytes'),
  make('div', { className: 'two' },
    make('div', null, listed('Summits', peak.peaks,
      'at: moment ns | live: bytes live_bytes | of the peak: meter peak_share | prominence: bytes prominence_bytes')),
    make('div', null, listed('Plateaus', peak.plateaus, 'from: moment begin_ns | for: time duration_ns | at most: bytes most_bytes'))),
  ...listed('The largest blocks at the peak', peak.blocks, 'size: bytes size | from: moment alloc_ns | until: until free_ns | tag: text tag | ' +
    'call stack: frames callstack | thread: text thread')];
}

function fragmentationTab({ fragmentation }) {
  if (!fragmentation) return none('The report of fragmentation has nothing to say of this recording; see About.');
  const { waterfall, moments } = fragmentation;
  const most = Math.max(1, ...waterfall.map((row) => row.bytes));
  const device = moments.some((row) => row.device_bytes !== null) ? ' | device: bytes device_bytes' : '';
  return [facts([['reserved at most', bytes(fragmentation.reserved_peak_bytes), fragmentation.reserved_peak_is_exact === false ? 'or more' : ''],
    ['live at most', bytes(fragmentation.peak_bytes)], ['utilisation', share(fragmentation.utilisation)],
    ['memory', fragmentation.memory_name]]),
  ...listed('From the request to the device', waterfall.map((row) => ({ ...row, share: row.bytes / most })),
    'step: text step | bytes: bytes bytes | of the most: meter share | added: plus added_bytes | by: text what'),
  ...listed('Moments', moments, 'moment: text moment | at: moment ns | live: bytes live_bytes | reserved: bytes reserved_bytes | used: share used_share | ' +
    'free: bytes free_bytes | largest hole: bytes largest_hole_bytes | holes: count holes | fragmented: share external_share' + device),
  ...listed('Chunks that few blocks keep', fragmentation.pins,
    'chunk: address chunk | size: bytes chunk_bytes | used: bytes used_bytes | blocks: count live_count | kept by: text pinned_by'),
  ...listed('Chunks', fragmentation.chunks,
    'chunk: address chunk | size: bytes chunk_bytes | used: meter used_share | free: bytes free_bytes | holes: count holes | largest hole: bytes largest_hole_bytes'),
  ...listed('Streams', fragmentation.streams,
    'stream: text stream | live: bytes live_bytes | rounding: bytes internal_bytes | blocks: count live_count | chunks: count chunks')];
}

function sizesTab({ histogram }) {
  if (!histogram?.allocations) return none('There are no allocations.');
  const sums = 'allocations: count allocations | share: meter allocations_share | bytes: bytes total_bytes | share: meter total_share | ' +
    'byte-seconds: meter byte_seconds_share';
  const lived = histogram.lifetimes.map((row) => ({ ...row, from: row.from_ns === null ? 'to the end' : 'from ' + time(row.from_ns) }));
  return [facts([['allocations', count(histogram.allocations)], ['bytes in all', bytes(histogram.total_bytes)],
    ['different sizes', count(histogram.sizes_count)]]),
  ...titled('Size by lifetime', heatMap('allocations'), heatMap('bytes')), make('div', { className: 'two' },
    make('div', null, listed('Sizes', histogram.sizes, 'from: bytes from_bytes | ' + sums)),
    make('div', null, listed('Lifetimes', lived, 'lived: text from | ' + sums))),
  ...listed('Exact sizes', histogram.exact, `size: count size | ${sums} | live at the end: count live_count`)];
}

const LIVED_ON = 20;   /* the class of what was never freed */
const livedText = (lived) => (lived === LIVED_ON ? 'to the end' : lived ? 'from ' + time(10 ** (lived - 1)) : '0 ns');
const sizeText = (size) => (size ? bytes(2 ** (size - 1), 0) : '0 B');
const SHORT = [['E', 1e18], ['P', 1e15], ['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3], ['', 0]];

/* Three digits that count: a cell is small. */
function brief(value) {
  const [unit, scale] = SHORT.find(([, least]) => value >= least * .9995);
  return unit ? number(value / scale, value < 9.995 * scale ? 2 : value < 99.95 * scale ? 1 : 0) + unit : count(value);
}

/* Sizes across, lifetimes down, in the classes of the tables below; two classes of sizes in one column where there are
   many. A colour says how near a cell is to the largest, by logarithms; the figure stands in it, for who sees no colours. */
function heatMap(figure) {
  const { lived, rows, [figure]: values } = data.matrix;
  const fold = new Set(data.matrix.size).size > 14 ? (size) => size - (size > 0 && size % 2 === 0) : (size) => size;
  const size = Array.from(data.matrix.size, fold);
  const sizes = [...new Set(size)].sort((a, b) => a - b);
  const ages = [...new Set(lived)].sort((a, b) => a - b);
  const cells = new Map();
  for (let i = 0; i < rows; i++) cells.set(size[i] * 32 + lived[i], (cells.get(size[i] * 32 + lived[i]) ?? 0) + values[i]);
  const at = (column, age) => cells.get(column * 32 + age) ?? 0;
  const sum = (list) => list.reduce((all, value) => all + value, 0);
  const most = Math.log2(1 + Math.max(0, ...cells.values()));
  const text = figure === 'bytes' ? (value) => bytes(value) : brief;
  const cell = (value, what) => {
    const box = make('td', { title: what + ': ' + (figure === 'bytes' ? bytes(value) : count(value)) }, value ? text(value) : '');
    const part = most ? Math.log2(1 + value) / most : 0;
    if (value) box.style.background = `color-mix(in srgb, var(--accent) ${Math.round(6 + part ** 3 * 49)}%, var(--paper))`;
    return box;
  };
  const head = (scope, words) => make('th', { scope }, words);
  const body = ages.map((age) => make('tr', null, head('row', livedText(age)),
    sizes.map((column) => cell(at(column, age), `${sizeText(column)} and more, ${livedText(age)}`)),
    make('td', { className: 'sum' }, text(sum(sizes.map((column) => at(column, age)))))));
  const foot = make('tr', null, head('row', 'all'), sizes.map((column) => make('td', { className: 'sum' }, text(sum(ages.map((age) => at(column, age)))))),
    make('td', { className: 'sum' }, text(sum(values))));
  return scrolled(make('table', { className: 'grid' },
    make('caption', null, `${figure === 'bytes' ? 'Bytes' : 'Allocations'}: a column for each size, from so many bytes on; a row for each lifetime`),
    make('thead', null, make('tr', null, head('col', 'lived'), sizes.map((column) => head('col', sizeText(column))), head('col', 'all'))),
    make('tbody', null, body, foot)));
}

function whoTab({ top }) {
  if (!top?.groups.length) return none('There are no allocations.');
  const timed = top.groups.some((row) => row.time_ns !== null) ? ' | in calls: time time_ns | share: meter time_share' : '';
  const driven = top.groups.some((row) => row.driver_calls !== null) ? ' | driver: time driver_ns | its calls: count driver_calls' : '';
  return listed(plural(top.groups_count, 'group'), top.groups, 'name | allocations: count allocations | churn: meter churn_share | bytes: bytes total_bytes | ' +
    'its peak: bytes peak_bytes | at the end: bytes live_bytes | mean life: time mean_life_ns | failures: count failures' + timed + driven);
}

function leaksTab({ leaks }) {
  if (!leaks) return none('The report of leaks has nothing to say of this recording; see About.');
  return [facts([['live at the end', bytes(leaks.live_bytes)], ['allocations', count(leaks.live_count)], ['the end', moment(leaks.end_ns), leaks.ended]]),
    ...(leaks.groups.length ? [] : none('Nothing is live at the end.')),
    ...listed('Never freed', leaks.groups,
      'name | live: bytes live_bytes | share: meter live_share | count: count live_count | of: count allocations | oldest from: moment oldest_ns'),
    ...listed(`What grew over ${plural(leaks.steps_count, 'step')} (${leaks.steps_text ?? leaks.steps_source})`, leaks.growth,
      'name | grew: bytes growth_bytes | a step: bytes step_bytes | first: bytes first_bytes | last: bytes last_bytes | rose: count rose | fell: count fell')];
}

function failuresTab({ failures }) {
  if (!failures?.failures.length && !failures?.made_good_count) return none('No allocation failed.');
  return [facts([['failed', count(failures.failures_count)], ['asked for in all', bytes(failures.failed_bytes)], ['made good below', count(failures.made_good_count)],
    failures.cause ? ['the first: cause', failures.cause] : null, failures.ns ? ['at', moment(failures.ns)] : null,
    failures.size ? ['asked for', bytes(failures.size)] : null, failures.live_bytes ? ['live then', bytes(failures.live_bytes)] : null]),
  failures.text ? make('p', null, failures.text) : null,
  failures.sufficient ? make('p', null, 'It would have passed with ', make('code', null, failures.sufficient), '.') : null,
  ...listed('Who held the memory then', failures.holders, 'name | live: bytes live_bytes | share: meter live_share'),
  ...listed('The largest holes', failures.holes, 'hole: bytes hole_bytes | before it: text before | behind it: text behind'),
  ...listed('By layer and cause', failures.refused_causes, 'layer: text refused_by | cause: text cause | count: count count'),
  ...listed('Failures', failures.failures.map((row) => ({ ...row, words: row.text ?? row.status })), 'at: moment ns | size: bytes size | cause: text cause | ' +
    'live: bytes live_bytes | reserved: bytes reserved_bytes | largest hole: bytes largest_hole_bytes | words: text words | tag: text tag | call stack: frames callstack')];
}

function layersTab({ layers, summary }) {
  if (!layers) return none('There are no layers.');
  const indented = layers.layers.map((row) => ({ ...row, layer: '\u2003'.repeat(Math.min(row.depth, 12)) + row.layer_id + ' ' + row.kind }));
  return [layers.stack ? make('p', null, make('code', null, layers.stack)) : null,
    ...listed('Layers, from the top down', indented, 'layer: text layer | arguments: text config | allocations: count allocations | failures: count failures | ' +
      'peak: bytes peak_bytes | at the end: bytes live_bytes | passed on: share passed_share | in calls: time time_ns | its own: time own_time_ns | reserved peak: bytes reserved_peak_bytes'),
    ...listed('Memory', summary?.memory, 'memory: text memory | stack: count stack | peak: bytes peak_bytes | at: moment peak_ns | ' +
      'reserved peak: bytes reserved_peak_bytes | utilisation: share utilisation | limit: bytes limit_bytes | at the end: bytes live_bytes'),
    ...listed('Devices', summary?.device_use, 'GPU: count device | memory: bytes total_bytes | in use at most: bytes in_use_peak_bytes | at: moment in_use_peak_ns | ' +
      'beside the trace: bytes beside_bytes'),
    ...listed('What layers counted', layers.counts.map((row) => ({ ...row, layer: row.layer_id + ' ' + row.kind })), 'layer: text layer | what: text name | count: count value')];
}

function aboutTab() {
  const { manifest } = data;
  const notes = [...new Set(Object.values(data.reports).flatMap((report) => report?.notes ?? []))];
  return [...(manifest.left_out.length ? titled('What the page lacks', make('ul', null, manifest.left_out.map((text) => make('li', null, text)))) : []),
    facts([['selected', manifest.of], ['allocations', count(manifest.allocations)], ['frees', count(manifest.frees)], ['ended', manifest.ended],
      ['lost events', count(manifest.lost_events)], ['exact instants', count(data.anchors.rows), `with ${plural(data.lives.rows, 'allocation')}`],
      ['detail', manifest.detail], ['made by', 'tidemark ' + manifest.version]]),
    ...(notes.length ? titled('Notes', make('ul', null, notes.map((text) => make('li', null, text)))) : []),
    ...titled('The recording', facts(Object.entries(manifest.trace).map(([key, value]) => [key.replaceAll('_', ' '), String(value)]), 'about'))];
}

function diffTab() {
  const { diff } = data;
  const shown = ({ figure }, value) => (/bytes/.test(figure) ? bytes(value) : /_ns$/.test(figure) ? time(value) : count(value));
  const figures = diff.figures.map((row) => ({ figure: row.figure.replaceAll('_', ' '), a: shown(row, row.a), b: shown(row, row.b),
    change: (row.change > 0 ? '+' : '') + shown(row, row.change), part: row.change_share, word: row.worse ? 'worse' : row.worse === false && row.change ? 'better' : '' }));
  const parts = ['tags', 'callstacks', 'sizes', 'classes', 'streams', 'threads', 'layers', 'devices', 'files'];
  return [make('p', { className: 'quiet' }, `${diff.a ?? 'One trace'} (first) and ${diff.b ?? 'another'} (second)`),
    ...listed('Figures', figures, 'figure: text figure | first: text a | second: text b | change: text change | as a share: share part | judged: text word'),
    ...parts.flatMap((part) => listed('Live at the peak, by ' + part, diff[part], 'name | first: bytes a_bytes | second: bytes b_bytes | change: change change_bytes'))];
}

const TABS = [{ id: 'peak', title: 'Peak', fill: peakTab }, { id: 'fragmentation', title: 'Fragmentation', fill: fragmentationTab },
  { id: 'sizes', title: 'Sizes and lifetimes', fill: sizesTab }, { id: 'who', title: 'Who', fill: whoTab }, { id: 'leaks', title: 'Leaks', fill: leaksTab },
  { id: 'failures', title: 'Failures', fill: failuresTab }, { id: 'layers', title: 'Layers', fill: layersTab }, { id: 'about', title: 'About', fill: aboutTab },
  { id: 'diff', title: 'Two traces', fill: diffTab, only: () => data.manifest.second }];

const shownTabs = () => TABS.filter((tab) => !tab.only || tab.only());

function fillPanel(tab) {
  const panel = byId('panel-' + tab.id);
  panel.replaceChildren(make('h2', null, tab.title), ...tab.fill(data.reports).filter(Boolean));
}

function makeTabs() {
  byId('tabs').replaceChildren(...shownTabs().map((tab) => {
    const button = make('button', { type: 'button', id: 'tab-' + tab.id, role: 'tab', 'aria-controls': 'panel-' + tab.id }, tab.title);
    button.addEventListener('click', () => setTab(tab.id));
    return button;
  }));
  byId('tabs').addEventListener('keydown', (event) => {
    const all = shownTabs();
    const at = all.findIndex((tab) => tab.id === view.tab);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: all.length - 1 }[event.key];
    if (to === undefined) return;
    setTab(all[(to + all.length) % all.length].id);
    byId('tab-' + view.tab).focus();
    event.preventDefault();
  });
  byId('panels').replaceChildren(...shownTabs().map((tab) => make('div', { id: 'panel-' + tab.id, role: 'tabpanel', className: 'panel', hidden: true,
    'aria-labelledby': 'tab-' + tab.id })));
}

function setTab(id) {
  view.tab = id;
  changed('tab');
}

function tabPart(what) {
  if (!data.reports || !(what.has('tab') || what.has('rest'))) return;
  for (const tab of shownTabs()) {
    const chosen = tab.id === view.tab;
    byId('tab-' + tab.id).setAttribute('aria-selected', String(chosen));
    byId('tab-' + tab.id).tabIndex = chosen ? 0 : -1;
    byId('panel-' + tab.id).hidden = !chosen;
    if (chosen) fillPanel(tab);
  }
}

/* What the selected range has: exact in whole buckets of the timeline. */
function rangePart(what) {
  if (!what.has('select') && !what.has('rest') && !what.has('groups')) return;
  byId('range').hidden = !view.select;
  if (!view.select) return;
  const [from, to] = [...view.select].sort((a, b) => a - b);
  const series = data.series.time;
  const bucket = (ns) => Math.min(series.rows - 1, Math.max(0, Math.floor((ns - series.begin) / series.width)));
  let [least, most, sum, events] = [Infinity, 0, 0, 0];
  for (let i = bucket(from); i <= bucket(to); i++) {
    least = Math.min(least, series.levels[0].least[i]);
    most = Math.max(most, series.levels[0].most[i]);
    sum += series.levels[0].least[i] / 2 + series.levels[0].most[i] / 2;
    events += series.events[i];
  }
  const failed = data.failures ? firstBehind(data.failures.ns, to) - firstBehind(data.failures.ns, from - 1) : 0;
  byId('range-body').replaceChildren(facts([['from', time(from, 1e3)], ['to', time(to, 1e3)], ['length', time(to - from)], ['most live', bytes(most)], ['least live', bytes(least)],
    ['mean', bytes(sum / (bucket(to) - bucket(from) + 1)), 'about'], ['allocations and frees', count(events)], ['failures', count(failed)],
    ['marks', count(data.marks.filter(({ ns }) => ns >= from && ns <= to).length)]]), ...rangeGroups(from, to),
  make('p', { className: 'quiet' }, `Counted in whole parts of ${time(series.width)} each.`));
}

function rangeGroups(from, to) {
  if (!stack) return [];
  const bucket = (ns) => Math.min(stack.rows - 1, Math.max(0, Math.floor((axis().of(ns) - stack.begin) / stack.width)));
  const [a, b] = [bucket(from), bucket(to)];
  const rows = stack.names.map((name, g) => ({ name: name || '(none)', first: stack.values[g][a], last: stack.values[g][b],
    most: stack.values[g].subarray(a, b + 1).reduce((high, value) => Math.max(high, value), 0) })).filter((row) => row.most);
  return listed(`Groups by ${GROUPING_WORDS[view.by]}, at the highest moment of each part`, rows.map((row) => ({ ...row, change: row.last - row.first })),
    'name | at its begin: bytes first | at its end: bytes last | change: change change | at most: bytes most');
}

function fillVerdict() {
  const { manifest } = data;
  const { peak, live } = manifest;
  const memory = manifest.reserved.filter((row) => row.peak_bytes !== null);
  const items = [[!manifest.complete || manifest.lost_events > 0, manifest.lost_events ? `Incomplete: ${plural(manifest.lost_events, 'event')} lost` : 'Incomplete', 'about'],
    [manifest.ended === 'killed', 'The program was killed', 'about'], [manifest.ended === 'running', 'Still recording', 'about'],
    [true, peak ? `Peak ${bytes(peak.bytes)} at ${time(peak.ns)} in ${plural(peak.count, 'allocation')}` : 'Nothing was ever live', 'peak', peak?.ns],
    ...memory.map((row) => [true, `${manifest.reserved.length > 1 ? row.name + ': ' : ''}${row.peak_is_exact === false ? 'at least ' : ''}${bytes(row.peak_bytes)} reserved`, 'fragmentation']),
    [true, plural(manifest.failures_count, 'failure'), 'failures'],
    [peak, live.count ? `${bytes(live.bytes)} never freed` : 'All was freed', 'leaks'],
    [manifest.second?.peak, `Second trace: peak ${bytes(manifest.second?.peak?.bytes)}`, 'diff'],
    [peak, `${count(manifest.allocations)} allocations in ${time(manifest.end_ns - manifest.begin_ns)}`, 'who']];
  byId('verdict').replaceChildren(...items.filter(([there]) => there).map(([, text, tab, ns], i) => {
    const link = make('a', { href: '#tables' }, text);
    link.addEventListener('click', (event) => {
      event.preventDefault();
      setTab(tab);
      if (ns !== undefined) goTo(ns);
      byId(ns === undefined ? 'tables' : 'timeline').scrollIntoView();
    });
    const isBad = /^Incomplete|killed/.test(text) || (tab === 'failures' && manifest.failures_count > 0);
    return make('li', { className: isBad ? 'bad' : '', value: i }, link);
  }));
}
