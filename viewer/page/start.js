'use strict';
// Where a trace's page begins: what the first picture needs, then the rest.

function setUp() {
  const { manifest } = data;
  const file = manifest.trace.file ?? 'a trace';
  byId('title').textContent = file + (manifest.second ? ' and ' + (manifest.second.trace.file ?? 'another') : '');
  document.title = file + ' · Tidemark';
  const second = manifest.second ?? { begin_ns: 0, end_ns: 0, events: 0 };
  const longest = Math.max(manifest.end_ns - manifest.begin_ns, second.end_ns - second.begin_ns, 1);
  Object.assign(AXES.time, { begin: manifest.begin_ns, end: manifest.begin_ns + longest });
  Object.assign(AXES.events, { begin: 0, end: Math.max(manifest.events, second.events, 1) });
  view.by = ['tag', 'frame', 'size'].find((by) => manifest.groups[by]?.count <= 16) ?? data.groupings[0] ?? '';
  view.at = manifest.peak?.ns ?? manifest.begin_ns;
  options('by', data.groupings, GROUPING_WORDS);
  options('map-by', Object.keys(MAP_COLOURS), MAP_COLOURS);
  byId('foot').textContent = `Made by tidemark ${manifest.version} from ${manifest.of ?? 'a trace'}. This page is one file: it loads nothing and sends nothing.`;
  byId('map').hidden = !manifest.map;
  byId('by').parentElement.hidden = !data.groupings.length;
  for (const id of ['icicle', 'overview', 'legend', 'instant']) byId(id).hidden = !manifest.peak;
  fillVerdict();
  fillHelp();
  makeTabs();
  watch();
}

function watch() {
  byId('by').addEventListener('change', (event) => setGrouping(event.target.value));
  byId('map-by').addEventListener('change', (event) => {
    view.colour = event.target.value;
    changed('colour');
  });
  for (const x of Object.keys(AXES)) byId('axis-' + x).addEventListener('click', () => setAxis(x));
  byId('fit').addEventListener('click', fit);
  byId('previous').addEventListener('click', () => step(data.anchors.ns, -1));
  byId('next').addEventListener('click', () => step(data.anchors.ns, 1));
  byId('range-clear').addEventListener('click', () => {
    clearAll();
    byId('timeline-canvas').focus();   /* the button goes */
  });
  for (const details of document.querySelectorAll('.behind')) details.addEventListener('toggle', () => {
    changed('resize');
    settle();
  });
  watchPointer(byId('timeline-canvas'), byId('tip'), (x, y) => {
    const at = atX(x, byId('timeline-canvas').clientWidth);
    return [...readingAt(at), ...groupBelow(at, y)];
  });
  watchPointer(byId('map-canvas'), byId('map-tip'), mapTip);
  watchOverview();
  watchIcicle();
  watchKeys();
  addEventListener('hashchange', () => readLink(location.hash));
  addEventListener('resize', () => changed('window', 'resize'));
  watchPrint(drawPrinted);
}

/* All tables stand one below the other. */
function drawPrinted() {
  if (data.reports) shownTabs().forEach(fillPanel);
  drawTimeline();
  drawOverview();
  if (data.map) sharpenMap();
  drawIcicle();
}

async function openTrace(manifest) {
  Object.assign(data, await openData(manifest));
  setUp();
  parts.push(timelinePart);
  atRest.push(describeTimeline);
  fit();
  readLink(location.hash);
  if (view.by) stack = await groupsOf(data, view.by, view.x);
  changed('by');
}

async function openTraceRest() {
  await openRest(data);
  if (data.manifest.second) rival = await openData(data.manifest.second);
  makeTabs();
  parts.push(mapPart, instantPart, iciclePart, rangePart, tabPart);
  if (data.map) atRest.push(sharpenMap, describeMap);
  readLink(location.hash);
  changed('rest', 'by');
}

document.addEventListener('DOMContentLoaded', () => beginPage(openTrace, openTraceRest));
