'use strict';
// The verdict, the selected range, and the tabs: tables of what the commands print with --json.

const PRINTED_ROWS = 40;
const SHOWN_ROWS = 200;

/* A table: columns are [title, text or element of a row, 'n' for numbers or 'name']. */
function table(caption, rows, columns) {
  const head = make('tr', null, columns.map(([title, , kind]) => make('th', { scope: 'col', className: kind ?? '' }, title)));
  const limit = printing ? PRINTED_ROWS : SHOWN_ROWS;
  const body = rows.slice(0, limit).map((row) => make('tr', null, columns.map(([, cell, kind]) =>
    make('td', { className: kind ?? '' }, cell(row)))));
  const more = rows.length > limit ? make('tr', null, make('td', { colSpan: columns.length, className: 'quiet' },
    `and ${count(rows.length - limit)} more`)) : null;
  return make('table', null, caption ? make('caption', null, caption) : null, make('thead', null, head), make('tbody', null, body, more));
}

const scrolled = (element) => make('div', { className: 'scroll', tabIndex: 0 }, element);
const titled = (title, ...content) => [make('h3', null, title), ...content];
const none = (text) => [make('p', { className: 'quiet' }, text)];

/* Rows under a heading; nothing where there are none. */
function listed(title, rows, columns) {
  return rows?.length ? titled(title, scrolled(table(null, rows, columns))) : [];
}

function frameList(words, title) {
  return make('ol', { title: title ?? '' }, words.map((word) => make('li', null, word)));
}

const named = ['name', (row) => (row.callstack ? frameList(row.callstack) : row.name ?? '(none)'), 'name'];

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
  ...listed('What the memory is', peak.training, [['kind', (row) => row.kind], ['bytes', (row) => bytes(row.bytes), 'n'],
    ['share', (row) => (row.share === null ? '–' : meter(row.share)), 'n'], ['what says so', (row) => row.what, 'name']]),
  ...listed('What was live at the peak, and what the peak would have been without it', peak.groups, [named,
    ['live', (row) => bytes(row.at_bytes), 'n'], ['share', (row) => meter(row.at_share), 'n'], ['count', (row) => count(row.at_count), 'n'],
    ['peak without', (row) => bytes(row.peak_without_bytes), 'n'], ['saved', (row) => bytes(row.saved_bytes), 'n']]),
  ...listed('Modules', peak.modules, [['module', (row) => row.module ?? '(none)', 'name'], ['bytes', (row) => bytes(row.bytes), 'n']]),
  make('div', { className: 'two' },
    make('div', null, listed('Summits', peak.peaks, [['at', (row) => moment(row.ns), 'n'], ['live', (row) => bytes(row.live_bytes), 'n'],
      ['of the peak', (row) => meter(row.peak_share), 'n'], ['prominence', (row) => bytes(row.prominence_bytes), 'n']])),
    make('div', null, listed('Plateaus', peak.plateaus, [['from', (row) => moment(row.begin_ns), 'n'], ['for', (row) => time(row.duration_ns), 'n'],
      ['at most', (row) => bytes(row.most_bytes), 'n']]))),
  ...listed('The largest blocks at the peak', peak.blocks, [['size', (row) => bytes(row.size), 'n'], ['from', (row) => moment(row.alloc_ns), 'n'],
    ['until', (row) => (row.free_ns === null ? 'the end' : moment(row.free_ns)), 'n'], ['tag', (row) => row.tag ?? '–', 'name'],
    ['call stack', (row) => (row.callstack ? frameList(row.callstack) : '–'), 'name'], ['thread', (row) => row.thread]])];
}

function fragmentationTab({ fragmentation }) {
  if (!fragmentation) return none('The report of fragmentation has nothing to say of this recording; see About.');
  const { waterfall, moments } = fragmentation;
  const most = Math.max(1, ...waterfall.map((row) => row.bytes));
  const device = moments.some((row) => row.device_bytes !== null) ? [['device', (row) => bytes(row.device_bytes), 'n']] : [];
  return [facts([['reserved at most', bytes(fragmentation.reserved_peak_bytes), fragmentation.reserved_peak_is_exact === false ? 'or more' : ''],
    ['live at most', bytes(fragmentation.peak_bytes)], ['utilisation', share(fragmentation.utilisation)],
    ['memory', fragmentation.memory_name]]),
  ...listed('From the request to the device', waterfall, [['step', (row) => row.step], ['bytes', (row) => meter(row.bytes / most, bytes(row.bytes)), 'n'],
    ['added', (row) => (row.added_bytes === null ? '' : '+' + bytes(row.added_bytes)), 'n'], ['by', (row) => row.what ?? '', 'name']]),
  ...listed('Moments', moments, [['moment', (row) => row.moment || '–'], ['at', (row) => moment(row.ns), 'n'], ['live', (row) => bytes(row.live_bytes), 'n'],
    ['reserved', (row) => bytes(row.reserved_bytes), 'n'], ['used', (row) => share(row.used_share), 'n'], ['free', (row) => bytes(row.free_bytes), 'n'],
    ['largest hole', (row) => bytes(row.largest_hole_bytes), 'n'], ['holes', (row) => count(row.holes), 'n'],
    ['fragmented', (row) => share(row.external_share), 'n'], ...device]),
  ...listed('Chunks that few blocks keep', fragmentation.pins, [['chunk', (row) => '0x' + row.chunk.toString(16)], ['size', (row) => bytes(row.chunk_bytes), 'n'],
    ['used', (row) => bytes(row.used_bytes), 'n'], ['blocks', (row) => count(row.live_count), 'n'], ['kept by', (row) => row.pinned_by, 'name']]),
  ...listed('Chunks', fragmentation.chunks, [['chunk', (row) => '0x' + row.chunk.toString(16)], ['size', (row) => bytes(row.chunk_bytes), 'n'],
    ['used', (row) => meter(row.used_share), 'n'], ['free', (row) => bytes(row.free_bytes), 'n'], ['holes', (row) => count(row.holes), 'n'],
    ['largest hole', (row) => bytes(row.largest_hole_bytes), 'n']]),
  ...listed('Streams', fragmentation.streams, [['stream', (row) => row.stream], ['live', (row) => bytes(row.live_bytes), 'n'],
    ['rounding', (row) => bytes(row.internal_bytes), 'n'], ['blocks', (row) => count(row.live_count), 'n'], ['chunks', (row) => count(row.chunks), 'n']])];
}

/* Sizes across, lifetimes down: exact sums at the edges, and, of the allocations in the page, how they go together. */
function sizesTab({ histogram }) {
  if (!histogram?.allocations) return none('There are no allocations.');
  const cells = [['allocations', (row) => count(row.allocations), 'n'], ['share', (row) => meter(row.allocations_share), 'n'],
    ['bytes', (row) => bytes(row.total_bytes), 'n'], ['share', (row) => meter(row.total_share), 'n'], ['byte-seconds', (row) => meter(row.byte_seconds_share), 'n']];
  return [facts([['allocations', count(histogram.allocations)], ['bytes in all', bytes(histogram.total_bytes)], ['different sizes', count(histogram.sizes_count)]]),
    ...titled('Size by lifetime, of the allocations that the page knows'), sizeGrid(), make('div', { className: 'two' },
      make('div', null, listed('Sizes', histogram.sizes, [['from', (row) => bytes(row.from_bytes), 'n'], ...cells])),
      make('div', null, listed('Lifetimes', histogram.lifetimes, [['from', (row) => (row.from_ns === null ? 'to the end' : time(row.from_ns)), 'n'], ...cells]))),
    ...listed('Exact sizes', histogram.exact, [['size', (row) => number(row.size), 'n'], ...cells, ['live at the end', (row) => count(row.live_count), 'n']])];
}

function sizeGrid() {
  const { lives } = data;
  const cells = new Map();
  const [sizes, ages] = [new Set(), new Set()];
  for (let i = 0; i < lives.rows; i++) {
    const size = lives.size[i] ? Math.floor(Math.log2(lives.size[i]) / 2) * 2 : -1;
    const age = lives.lived[i] ? Math.floor(Math.log10(Math.max(1, lives.lived[i] - 1))) : 99;
    sizes.add(size);
    ages.add(age);
    cells.set(size + ',' + age, (cells.get(size + ',' + age) ?? 0) + 1);
  }
  const most = Math.log(1 + Math.max(1, ...cells.values()));
  const order = [...sizes].sort((a, b) => a - b);
  const row = (age) => make('tr', null, make('th', { scope: 'row' }, age === 99 ? 'to the end' : 'from ' + time(10 ** age)), order.map((size) => {
    const value = cells.get(size + ',' + age) ?? 0;
    const cell = make('td', null, value ? count(value) : '');
    const part = Math.log(1 + value) / most;
    cell.style.background = value ? `color-mix(in srgb, var(--accent) ${Math.round(8 + part * 42)}%, var(--paper))` : 'var(--ground)';
    return cell;
  }));
  return scrolled(make('table', { className: 'grid' }, make('thead', null, make('tr', null, make('th', null, 'lived'),
    order.map((size) => make('th', { scope: 'col', className: 'n' }, size < 0 ? '0 B' : bytes(2 ** size, 0))))),
  make('tbody', null, [...ages].sort((a, b) => a - b).map(row))));
}

function whoTab({ top }) {
  if (!top?.groups.length) return none('There are no allocations.');
  const timed = top.groups.some((row) => row.time_ns !== null);
  const driven = top.groups.some((row) => row.driver_calls !== null);
  return [make('p', { className: 'quiet' }, plural(top.groups_count, 'group')), scrolled(table(null, top.groups, [named,
    ['allocations', (row) => count(row.allocations), 'n'], ['churn', (row) => meter(row.churn_share), 'n'], ['bytes', (row) => bytes(row.total_bytes), 'n'],
    ['its peak', (row) => bytes(row.peak_bytes), 'n'], ['at the end', (row) => bytes(row.live_bytes), 'n'], ['mean life', (row) => time(row.mean_life_ns), 'n'],
    ['failures', (row) => count(row.failures), 'n'],
    ...(timed ? [['in calls', (row) => time(row.time_ns), 'n'], ['share', (row) => meter(row.time_share), 'n']] : []),
    ...(driven ? [['driver', (row) => time(row.driver_ns), 'n'], ['its calls', (row) => count(row.driver_calls), 'n']] : [])]))];
}

function leaksTab({ leaks }) {
  if (!leaks) return none('The report of leaks has nothing to say of this recording; see About.');
  return [facts([['live at the end', bytes(leaks.live_bytes)], ['allocations', count(leaks.live_count)], ['the end', moment(leaks.end_ns), leaks.ended]]),
    ...(leaks.groups.length ? [] : none('Nothing is live at the end.')),
    ...listed('Never freed', leaks.groups, [named, ['live', (row) => bytes(row.live_bytes), 'n'], ['share', (row) => meter(row.live_share), 'n'],
      ['count', (row) => count(row.live_count), 'n'], ['of', (row) => count(row.allocations), 'n'], ['oldest from', (row) => moment(row.oldest_ns), 'n']]),
    ...listed(`What grew over ${plural(leaks.steps_count, 'step')} (${leaks.steps_text ?? leaks.steps_source})`, leaks.growth, [named,
      ['grew', (row) => bytes(row.growth_bytes), 'n'], ['a step', (row) => bytes(row.step_bytes), 'n'], ['first', (row) => bytes(row.first_bytes), 'n'],
      ['last', (row) => bytes(row.last_bytes), 'n'], ['rose', (row) => count(row.rose), 'n'], ['fell', (row) => count(row.fell), 'n']])];
}

function failuresTab({ failures }) {
  if (!failures?.failures.length && !failures?.made_good_count) return none('No allocation failed.');
  const call = (row) => (row.callstack ? frameList(row.callstack) : row.tag ?? '–');
  return [facts([['failed', count(failures.failures_count)], ['asked for', bytes(failures.failed_bytes)], ['made good below', count(failures.made_good_count)],
    failures.cause ? ['the first: cause', failures.cause] : null, failures.ns ? ['at', moment(failures.ns)] : null,
    failures.size ? ['asked for', bytes(failures.size)] : null, failures.live_bytes ? ['live then', bytes(failures.live_bytes)] : null]),
  ...(failures.text ? [make('p', null, failures.text)] : []),
  ...(failures.sufficient ? [make('p', null, 'It would have passed with ', make('code', null, failures.sufficient), '.')] : []),
  ...listed('Who held the memory then', failures.holders, [named, ['live', (row) => bytes(row.live_bytes), 'n'], ['share', (row) => meter(row.live_share), 'n']]),
  ...listed('The largest holes', failures.holes, [['hole', (row) => bytes(row.hole_bytes), 'n'], ['before it', (row) => row.before, 'name'], ['behind it', (row) => row.behind, 'name']]),
  ...listed('By layer and cause', failures.refused_causes, [['layer', (row) => row.refused_by], ['cause', (row) => row.cause ?? '–'], ['count', (row) => count(row.count), 'n']]),
  ...listed('Failures', failures.failures, [['at', (row) => moment(row.ns), 'n'], ['size', (row) => bytes(row.size), 'n'], ['cause', (row) => row.cause ?? '–'],
    ['live', (row) => bytes(row.live_bytes), 'n'], ['reserved', (row) => bytes(row.reserved_bytes), 'n'], ['largest hole', (row) => bytes(row.largest_hole_bytes), 'n'],
    ['words', (row) => row.text ?? row.status, 'name'], ['asked by', call, 'name']])];
}

function layersTab({ layers, summary }) {
  if (!layers) return none('There are no layers.');
  return [layers.stack ? make('p', null, make('code', null, layers.stack)) : null,
    ...listed('Layers, from the top down', layers.layers, [['layer', (row) => '\u2003'.repeat(Math.min(row.depth, 12)) + row.layer_id + ' ' + row.kind], ['arguments', (row) => row.config, 'name'],
      ['allocations', (row) => count(row.allocations), 'n'], ['failures', (row) => count(row.failures), 'n'], ['peak', (row) => bytes(row.peak_bytes), 'n'],
      ['at the end', (row) => bytes(row.live_bytes), 'n'], ['passed on', (row) => share(row.passed_share), 'n'], ['in calls', (row) => time(row.time_ns), 'n'],
      ['its own', (row) => time(row.own_time_ns), 'n'], ['reserved peak', (row) => bytes(row.reserved_peak_bytes), 'n']]),
    ...listed('Memory', summary?.memory, [['memory', (row) => row.memory], ['stack', (row) => count(row.stack), 'n'], ['peak', (row) => bytes(row.peak_bytes), 'n'],
      ['at', (row) => moment(row.peak_ns), 'n'], ['reserved peak', (row) => bytes(row.reserved_peak_bytes), 'n'], ['utilisation', (row) => share(row.utilisation), 'n'],
      ['limit', (row) => bytes(row.limit_bytes), 'n'], ['at the end', (row) => bytes(row.live_bytes), 'n']]),
    ...listed('Devices', summary?.device_use, [['GPU', (row) => row.device, 'n'], ['memory', (row) => bytes(row.total_bytes), 'n'],
      ['in use at most', (row) => bytes(row.in_use_peak_bytes), 'n'], ['at', (row) => moment(row.in_use_peak_ns), 'n'], ['beside the trace', (row) => bytes(row.beside_bytes), 'n']]),
    ...listed('What layers counted', layers.counts, [['layer', (row) => row.layer_id + ' ' + row.kind], ['what', (row) => row.name], ['count', (row) => count(row.value), 'n']])];
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
  const figure = (row, value) => (/bytes/.test(row.figure) ? bytes(value) : /_ns$/.test(row.figure) ? time(value) : count(value));
  const parts = ['tags', 'callstacks', 'sizes', 'classes', 'streams', 'threads', 'layers', 'devices', 'files'];
  return [make('p', { className: 'quiet' }, `${diff.a} (first) and ${diff.b} (second)`),
    ...listed('Figures', diff.figures, [['figure', (row) => row.figure.replaceAll('_', ' ')], ['first', (row) => figure(row, row.a), 'n'],
      ['second', (row) => figure(row, row.b), 'n'], ['change', (row) => (row.change > 0 ? '+' : '') + figure(row, row.change), 'n'],
      ['', (row) => (row.change_share === null ? '' : (row.change > 0 ? '+' : '') + share(row.change_share)), 'n'], ['', (row) => (row.worse ? 'worse' : row.worse === false && row.change ? 'better' : '')]]),
    ...parts.flatMap((part) => listed('Live at the peak, by ' + part, diff[part], [named, ['first', (row) => bytes(row.a_bytes), 'n'],
      ['second', (row) => bytes(row.b_bytes), 'n'], ['change', (row) => (row.change_bytes > 0 ? '+' : '') + bytes(row.change_bytes), 'n']]))];
}

const TABS = [{ id: 'peak', title: 'Peak', fill: peakTab }, { id: 'fragmentation', title: 'Fragmentation', fill: fragmentationTab },
  { id: 'sizes', title: 'Sizes and lifetimes', fill: sizesTab }, { id: 'who', title: 'Who', fill: whoTab }, { id: 'leaks', title: 'Leaks', fill: leaksTab },
  { id: 'failures', title: 'Failures', fill: failuresTab }, { id: 'layers', title: 'Layers', fill: layersTab }, { id: 'about', title: 'About', fill: aboutTab },
  { id: 'diff', title: 'Two traces', fill: diffTab, only: () => data.diff }];

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
  byId('range').hidden = !view.select;
  if (!view.select || !(what.has('select') || what.has('rest') || what.has('groups'))) return;
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
  return [scrolled(table('Groups by ' + GROUPING_WORDS[view.by] + ', at the highest moment of each part', rows, [named, ['at its begin', (row) => bytes(row.first), 'n'],
    ['at its end', (row) => bytes(row.last), 'n'], ['change', (row) => (row.last > row.first ? '+' : '') + bytes(row.last - row.first), 'n'], ['at most', (row) => bytes(row.most), 'n']]))];
}

function fillVerdict() {
  const { manifest } = data;
  const { peak, live } = manifest;
  const memory = manifest.reserved.filter((row) => row.peak_bytes !== null);
  const items = [[!manifest.complete || manifest.lost_events > 0, manifest.lost_events ? `Incomplete: ${plural(manifest.lost_events, 'event')} lost` : 'Incomplete', 'about'],
    [manifest.ended === 'killed', 'The program was killed', 'about'], [manifest.ended === 'running', 'Still recording', 'about'],
    [true, peak ? `Peak ${bytes(peak.bytes)} at ${time(peak.ns)} in ${plural(peak.count, 'allocation')}` : 'Nothing was ever live', 'peak', peak?.ns],
    ...memory.map((row) => [true, `${row.peak_is_exact === false ? 'At least ' : ''}${bytes(row.peak_bytes)} reserved${manifest.reserved.length > 1 ? ' of ' + row.name : ''}`, 'fragmentation']),
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
