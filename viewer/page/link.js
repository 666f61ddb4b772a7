'use strict';
// The address of a trace's page: what it says, and what it asks for.

const atText = (at) => (view.x === 'time' ? exactTime(at) : String(Math.round(at)));

function linkText() {
  const whole = view.from === axis().begin && view.to === axis().end;
  const words = { v: 1, x: view.x, from: whole ? null : atText(view.from), to: whole ? null : atText(view.to),
    at: exactTime(view.at), by: view.by, select: view.select?.map(exactTime).join('-'), tab: view.tab,
    colour: view.colour === 'occupied' ? null : view.colour, find: view.search };
  return '#' + Object.entries(words).filter(([, value]) => value).map(([key, value]) => key + '=' + encodeURIComponent(value)).join('&');
}

/* What a link asks for; what it asks wrongly is left as it is. */
function readLink(link) {
  const words = new URLSearchParams(link.slice(1));
  const moment = (text) => (text?.endsWith('s') ? Math.round(parseFloat(text) * 1e9) : parseFloat(text));
  if (words.get('v') !== '1') return;
  view.x = words.get('x') === 'events' ? 'events' : 'time';
  if (data.groupings.includes(words.get('by'))) view.by = words.get('by');
  if (MAP_COLOURS[words.get('colour')]) view.colour = words.get('colour');
  if (shownTabs().some((tab) => tab.id === words.get('tab'))) view.tab = words.get('tab');
  view.search = words.get('find') ?? '';
  const [from, to, at] = ['from', 'to', 'at'].map((key) => moment(words.get(key)));
  const select = (words.get('select') ?? '').split(/(?<=s)-/).map(moment);
  view.select = select.length === 2 && select.every(Number.isFinite) ? select : null;
  look(Number.isFinite(from) ? from : axis().begin, Number.isFinite(to) ? to : axis().end);
  if (Number.isFinite(at)) view.at = Math.min(Math.max(at, AXES.time.begin), AXES.time.end);
  changed('window', 'at', 'axis', 'by', 'select', 'tab', 'search');
}
