'use strict';
// Pointer and keys: drag pans, shift-drag selects, wheel and pinch zoom about the pointer, double click fits.

/* What the pictures over the shared axis have in common; tip(x, y) says what stands below the pointer, click() looks there. */
function watchPointer(canvas, tipBox, tip, click = clickAt) {
  const pointers = new Map();
  let moved = false;
  let pinch = 0;
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const at = (x) => Math.min(Math.max(atX(x, canvas.clientWidth), axis().begin), axis().end);
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button) return;
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    moved = false;
    pinch = 0;
    if (event.shiftKey) view.select = [axis().ns(at(place(event)[0])), axis().ns(at(place(event)[0]))];
  });
  canvas.addEventListener('pointermove', (event) => {
    const [x, y] = place(event);
    const before = pointers.get(event.pointerId);
    if (!before) {
      const inside = x >= LEFT && x <= canvas.clientWidth - RIGHT;
      showTip(tipBox, canvas, x, y, inside ? tip(x, y) : null);
      return;
    }
    showTip(tipBox, canvas, x, y, null);
    if (Math.abs(x - before[0]) + Math.abs(y - before[1]) < 4 && !moved) return;
    moved = true;
    pointers.set(event.pointerId, [x, y]);
    if (pointers.size === 2) {
      const [a, b] = [...pointers.values()].map((point) => point[0]);
      const spread = Math.max(Math.abs(a - b), 10);
      if (pinch) zoom(pinch / spread, atX((a + b) / 2, canvas.clientWidth));
      pinch = spread;
    } else if (event.shiftKey && view.select) {
      view.select[1] = axis().ns(at(x));
      changed('select');
    } else {
      pan((before[0] - x) / (canvas.clientWidth - LEFT - RIGHT));
    }
  });
  const end = (event) => {
    if (!pointers.delete(event.pointerId)) return;
    if (moved && view.select) view.select.sort((a, b) => a - b);
    if (!moved && event.type === 'pointerup') click(place(event)[0], canvas.clientWidth, place(event)[1]);
    changed('select');
  };
  canvas.addEventListener('pointerup', end);
  canvas.addEventListener('pointercancel', end);
  canvas.addEventListener('pointerleave', () => { tipBox.hidden = true; });
  canvas.addEventListener('dblclick', fit);
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / canvas.clientWidth);
    else zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / (event.ctrlKey ? 50 : 300)))), at(place(event)[0]));
    event.preventDefault();
  }, { passive: false });
}

/* A click looks at the moment below it, or at an anchor that is as good as there. */
function clickAt(x, width) {
  const ns = axis().ns(Math.min(Math.max(atX(x, width), axis().begin), axis().end));
  const near = nearestAnchor(ns);
  const isNear = near >= 0 && Math.abs(xOf(axis().of(data.anchors.ns[near]), width) - x) <= 6;
  goTo(isNear ? bestAnchor(x, width, near) : ns);
}

/* Of the anchors within 6 pixels the one that says most: the peak, then a summit, and so on. */
function bestAnchor(x, width, near) {
  let best = near;
  const { ns, why } = data.anchors;
  for (const direction of [-1, 1]) {
    for (let i = near; i >= 0 && i < ns.length && Math.abs(xOf(axis().of(ns[i]), width) - x) <= 6; i += direction) {
      if ((why[i] & -why[i]) < (why[best] & -why[best])) best = i;
    }
  }
  return ns[best];
}

function watchOverview() {
  const canvas = byId('overview');
  let grip = null;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    const { begin, end } = axis();
    return begin + (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT) * (end - begin);
  };
  canvas.addEventListener('pointerdown', (event) => {
    canvas.setPointerCapture(event.pointerId);
    const place = at(event);
    const inside = place > view.from && place < view.to && view.to - view.from < axis().end - axis().begin;
    grip = { inside, place };
  });
  canvas.addEventListener('pointermove', (event) => {
    if (!grip) return;
    const place = at(event);
    if (grip.inside) {
      look(view.from + place - grip.place, view.to + place - grip.place);
      grip.place = place;
    } else if (Math.abs(place - grip.place) > (axis().end - axis().begin) / 200) {
      look(Math.min(place, grip.place), Math.max(place, grip.place));
    }
  });
  canvas.addEventListener('pointerup', (event) => {
    const place = at(event);
    const half = (view.to - view.from) / 2;
    if (grip && !grip.inside && grip.place === place) look(place - half, place + half);
    grip = null;
  });
  canvas.addEventListener('dblclick', fit);
}

const KEYS = [
  ['← →', 'pan', { ArrowLeft: () => pan(-.1), ArrowRight: () => pan(.1) }],
  ['↑ ↓', 'zoom in and out about the cursor', { ArrowUp: () => zoom(1 / 1.4), ArrowDown: () => zoom(1.4) }],
  ['0', 'fit the whole recording', { 0: fit }],
  ['[ ]', 'the summit before and behind', { '[': () => step(summits(), -1), ']': () => step(summits(), 1) }],
  [', .', 'the exact instant before and behind', { ',': () => step(data.anchors.ns, -1), '.': () => step(data.anchors.ns, 1) }],
  ['p', 'the peak', { p: () => data.manifest.peak && goTo(data.manifest.peak.ns) }],
  ['s', 'begin a range at the cursor; again: end it there', { s: selectByKey }],
  ['Esc', 'clear the range, the search, the icicle’s zoom', { Escape: clearAll }],
  ['g', 'the next grouping', { g: () => setGrouping(data.groupings[(data.groupings.indexOf(view.by) + 1) % data.groupings.length]) }],
  ['e', 'events or time', { e: () => setAxis(view.x === 'time' ? 'events' : 'time') }],
  ['/', 'search tags and frames', { '/': () => byId('search').focus() }],
  ['t', 'the next table', { t: () => setTab(shownTabs()[(shownTabs().findIndex((tab) => tab.id === view.tab) + 1) % shownTabs().length].id) }],
  ['?', 'this help', { '?': () => byId('help').showModal() }],
];

const summits = () => [...data.manifest.summits.map((summit) => summit.ns), ...(data.manifest.peak ? [data.manifest.peak.ns] : [])];

function setGrouping(by) {
  if (!by) return;
  view.by = by;
  changed('by');
}

let selectFrom = null;

function selectByKey() {
  if (selectFrom === null) {
    selectFrom = view.at;
    view.select = [view.at, view.at];
    byId('reading').textContent = 'a range begins at ' + time(view.at);
  } else {
    view.select = [selectFrom, view.at].sort((a, b) => a - b);
    selectFrom = null;
  }
  changed('select');
}

function clearAll() {
  view.select = selectFrom = null;
  view.search = byId('search').value = '';
  icicle.focus = null;
  changed('select', 'search');
}

function watchKeys(list = KEYS) {
  const actions = Object.assign({}, ...list.map(([, , keys]) => keys));
  addEventListener('keydown', (event) => {
    const { target } = event;
    const typing = target.closest('input, select, textarea, dialog') && event.key !== 'Escape';
    const own = target.closest('[role=tablist], #icicle-canvas') && event.key.startsWith('Arrow');
    const action = actions[event.key];
    if (typing || own || !action || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape' && target.closest('dialog')) return;
    action();
    event.preventDefault();
  });
}

const GESTURES = [['drag', 'pan'], ['shift and drag', 'select a range'], ['wheel, pinch', 'zoom about the pointer'],
  ['click', 'look at that instant'], ['double click', 'fit']];

function fillHelp(list = KEYS, gestures = GESTURES) {
  const close = make('button', { type: 'button' }, 'Close');
  close.addEventListener('click', () => byId('help').close());
  const rows = list.map(([keys, what]) => make('tr', null, make('td', null, keys.split(' ').flatMap((key) => [make('kbd', null, key), ' '])),
    make('td', null, what)));
  rows.push(...gestures.map(([how, what]) => make('tr', null, make('td', null, how), make('td', null, what))));
  byId('help').replaceChildren(make('div', { className: 'bar' }, make('h2', { id: 'help-title' }, 'Keys and gestures'),
    make('span', { className: 'space' }), close), make('table', null, make('tbody', null, rows)));
}
