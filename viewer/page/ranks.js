'use strict';
// Where a job's page begins: what the heat map needs, then the rest.

AXES.steps = { base: 10, least: 4, text: (at) => number(at || 0),   /* no -0 */
  of: (at) => at, ns: (at) => at, begin: 0, end: 1 };
delete AXES.events;
Object.assign(view, { rank: 0, step: 0, mode: 'bytes', order: 'rank', near: false, kind: 'tag' });

const RANK_KEYS = [
  ['← →', 'the moment before and behind', { ArrowLeft: () => moveSpot(-1), ArrowRight: () => moveSpot(1) }],
  ['↑ ↓', 'the rank above and below', { ArrowUp: () => moveRank(-1), ArrowDown: () => moveRank(1) }],
  ['+ −', 'zoom in and out about the cursor', { '+': () => zoom(1 / 1.4, spot()), '-': () => zoom(1.4, spot()) }],
  ['0', 'fit the whole job', { 0: fit }],
  ['p', 'the peak of the rank', { p: () => goToPeak() }],
  ['x', 'the rank with the highest peak', { x: () => selectRank(job.memory.report.highest_rank) }],
  ['m', 'live bytes, or beside the median', { m: () => setMode(view.mode === 'bytes' ? 'median' : 'bytes') }],
  ['o', 'the next order', { o: () => setOrder(next(Object.keys(ORDERS), view.order)) }],
  ['e', 'steps or time', { e: () => setAxisTo(view.x === 'time' ? 'steps' : 'time') }],
  ['n', 'only the ranks around the selected one', { n: () => setNear(!view.near) }],
  ['g', 'the next kind of groups', { g: () => setKind(next(kindsOf(), view.kind)) }],
  ['y', 'the next memory', { y: () => setMemory(next(data.manifest.memories.map((_, place) => place), job.memory.place)) }],
  ['?', 'this help', { '?': () => byId('help').showModal() }],
];
const RANK_GESTURES = [['click', 'select that rank and moment'], ['drag', 'pan'], ['wheel, pinch', 'zoom about the pointer'], ['double click', 'fit']];

const next = (list, value) => list[(list.indexOf(value) + 1) % list.length];

function selectRank(rank) {
  view.rank = rank;
  changed('rank');
}

function moveRank(by) {
  const at = lines.findIndex(({ rank }) => rank === view.rank);
  selectRank(lines[Math.min(Math.max(at + by, 0), lines.length - 1)].rank);
}

/* By a bucket, or by a pixel where these are wider. */
function moveSpot(by) {
  const each = Math.max(grid().width, (view.to - view.from) / Math.max(1, byId('heat-canvas').clientWidth - LEFT - RIGHT));
  setSpot(spot() + by * each);
}

function goToPeak() {
  const figures = job.memory.figures.get(view.rank);
  if (!figures) return;
  setSpot(view.x === 'time' ? jobTime(view.rank, figures.peak_ns) : figures.step ?? view.step);
}

function setMode(mode) {
  view.mode = mode;
  changed('mode');
}

function setOrder(order) {
  view.order = order;
  changed('order');
}

function setNear(near) {
  view.near = near;
  changed('near');
}

function setKind(kind) {
  view.kind = kind ?? view.kind;
  changed('kind');
}

/* Another axis begins with all of it. */
async function setAxisTo(x) {
  if (!AXES[x] || !hasAxis(x)) return;
  await openAxis(x);
  view.x = x;
  readAxes();
  fit();
  changed('axis');
}

function readAxes() {
  for (const x of ['time', 'steps']) {
    const of = job.memory.grids[x];
    if (of) Object.assign(AXES[x], { begin: of.begin, end: of.begin + of.buckets * of.width });
    byId('axis-' + x).hidden = !hasAxis('steps');
  }
}

async function setMemory(place) {
  if (job.memory.place === place) return;
  const memory = await openMemory(place);
  if (data.manifest.memories[place][view.x] === null) view.x = 'time';
  job.memory = memory;
  await openAxis(view.x);
  readAxes();
  byId('memory').value = String(place);
  fit();
  changed('memory', 'axis');
}

function setUpJob() {
  const { manifest } = data;
  const name = job.reports.ranks.job ?? manifest.file ?? 'a job';
  byId('title').textContent = 'Ranks of ' + name;
  document.title = name + ' · Tidemark';
  view.rank = job.reports.ranks.rank;
  readAxes();
  const { peak_ns: ns, step } = job.memory.figures.get(view.rank);
  Object.assign(view, { at: jobTime(view.rank, ns), step: step ?? 0 });
  options('memory', manifest.memories.map((_, place) => String(place)), manifest.memories.map(({ memory }) => memory));
  byId('memory-label').hidden = manifest.memories.length < 2;
  options('order', Object.keys(ORDERS).filter((order) => order !== 'host' || job.ranks.some(({ hostname }) => hostname)), ORDERS);
  byId('foot').textContent = `Made by tidemark ${manifest.version}. This page is one file: it loads nothing and sends nothing.`;
  fillHelp(RANK_KEYS, RANK_GESTURES);
  watchJob();
}

function watchJob() {
  const clicked = (pick) => (x, width, y) => {
    const at = Math.min(Math.max(atX(x, width), axis().begin), axis().end);
    if (pick) selectRank(lineAt(y, at).rank);
    setSpot(at);
  };
  byId('memory').addEventListener('change', (event) => setMemory(Number(event.target.value)));
  byId('order').addEventListener('change', (event) => setOrder(event.target.value));
  byId('kind').addEventListener('change', (event) => setKind(event.target.value));
  for (const x of ['time', 'steps']) byId('axis-' + x).addEventListener('click', () => setAxisTo(x));
  for (const mode of ['bytes', 'median']) byId('mode-' + mode).addEventListener('click', () => setMode(mode));
  byId('near').addEventListener('click', () => setNear(!view.near));
  byId('fit').addEventListener('click', fit);
  byId('previous').addEventListener('click', () => moveRank(-1));
  byId('next').addEventListener('click', () => moveRank(1));
  byId('heat-table').parentElement.addEventListener('toggle', () => changed('resize'));
  watchPointer(byId('heat-canvas'), byId('heat-tip'), (x, y) => {
    const at = atX(x, byId('heat-canvas').clientWidth);
    return y < heatBottom() ? heatWords(lineAt(y, at), at) : null;
  }, clicked(true));
  watchPointer(byId('one-canvas'), byId('one-tip'), (x) => oneWords(atX(x, byId('one-canvas').clientWidth)), clicked(false));
  watchKeys(RANK_KEYS);
  addEventListener('hashchange', () => readLink(location.hash));
  addEventListener('resize', () => changed('resize'));
  watchPrint(drawJobPrinted);
}

function drawJobPrinted() {
  readShades();
  drawHeat();
  drawOne();
  fillRanks();
}

async function openJobPage(manifest) {
  await openJob(manifest);
  setUpJob();
  parts.push(heatPart, onePart);
  fit();
  await readLink(location.hash);
  changed('memory', 'rank', 'order');
}

async function openJobPageRest() {
  await openJobRest(data.manifest);
  parts.push(tablesPart);
  changed('rest');
}

document.addEventListener('DOMContentLoaded', () => beginPage(openJobPage, openJobPageRest));
