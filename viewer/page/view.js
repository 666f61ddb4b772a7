'use strict';
// What is looked at: the window, the instant, the grouping, the open table. It stands in the address as a deep link
// (linkText, readLink).

const view = { x: 'time', from: 0, to: 1, at: 0, by: '', select: null, tab: 'peak', colour: 'occupied', hidden: new Set(),
  search: '' };
const parts = [];          /* functions that draw, called with what has changed */
const atRest = [];         /* functions that follow once a movement rests */
let dirty = new Set();

const AXES = {
  time: { base: 60, least: 1000, text: time, of: (ns) => ns, ns: (at) => at, begin: 0, end: 1 },
  events: { base: 10, least: 20, text: (at) => number(at), of: eventOf, ns: nsOfEvent, begin: 0, end: 1 },
};

const axis = () => AXES[view.x];
const xOf = (at, width) => LEFT + (at - view.from) / (view.to - view.from) * (width - LEFT - RIGHT);
const atX = (x, width) => view.from + (x - LEFT) / (width - LEFT - RIGHT) * (view.to - view.from);

/* Draw again, once in the next frame, what depends on these words: window, at, by, select, theme, search, tab. */
function changed(...words) {
  if (!dirty.size) requestAnimationFrame(drawAll);
  for (const word of words) dirty.add(word);
}

function drawAll() {
  if (!dirty.size) return;
  const what = dirty;
  dirty = new Set();
  for (const part of parts) part(what);
  clearTimeout(drawAll.rest);
  drawAll.rest = setTimeout(settle, 200);
}

/* What need not follow each frame of a movement. A word that changes in the page costs a frame as much as its picture, by
   layout and paint; the link costs the browser as much again. */
function settle() {
  if (!parts.length) return;
  clearTimeout(drawAll.rest);
  for (const part of atRest) part();
  writeLink();
}

/* The window, kept within the recording and not narrower than the data is fine. */
function look(from, to) {
  const { begin, end, least } = axis();
  const width = Math.min(Math.max(to - from, Math.min(least, end - begin)), end - begin);
  const middle = (from + to) / 2;
  view.from = Math.min(Math.max(middle - width / 2, begin), end - width);
  view.to = view.from + width;
  changed('window');
}

const pan = (by) => look(view.from + by * (view.to - view.from), view.to + by * (view.to - view.from));

function zoom(factor, about) {
  const centre = about ?? Math.min(Math.max(axis().of(view.at), view.from), view.to);
  look(centre - (centre - view.from) * factor, centre + (view.to - centre) * factor);
}

const fit = () => look(axis().begin, axis().end);

function goTo(ns) {
  view.at = Math.min(Math.max(ns, AXES.time.begin), AXES.time.end);
  const at = axis().of(view.at);
  if (at < view.from || at > view.to) look(at - (view.to - view.from) / 2, at + (view.to - view.from) / 2);
  changed('at');
}

function setAxis(x) {
  if (view.x === x) return;
  const [from, to] = [axis().ns(view.from), axis().ns(view.to)];
  view.x = x;
  look(axis().of(from), axis().of(to));
  changed('axis');
}

/* The n-th of these moments behind (or, with -1, before) the cursor. */
function step(moments, direction) {
  const sorted = [...new Set(moments)].sort((a, b) => a - b);
  const found = direction > 0 ? sorted.find((ns) => ns > view.at) : sorted.reverse().find((ns) => ns < view.at);
  if (found !== undefined) goTo(found);
}

function writeLink() {
  if (linkText() === location.hash || location.hash.startsWith('#selftest')) return;
  try {
    history.replaceState(null, '', linkText());
  } catch { /* some browsers refuse it for files, or when it comes too often */ }
}
