'use strict';
// The address of a job's page: what it says, and what it asks for.

const spotText = (at) => (view.x === 'time' ? exactTime(at) : String(Math.round(at)));

function linkText() {
  const whole = view.from === axis().begin && view.to === axis().end;
  const words = { v: 1, rank: view.rank, t: spotText(spot()), x: view.x, from: whole ? null : spotText(view.from),
    to: whole ? null : spotText(view.to), mode: view.mode, order: view.order === 'rank' ? null : view.order, near: view.near ? 1 : null,
    memory: job.memory.place || null };
  return '#' + Object.entries(words).filter(([, value]) => value !== null).map(([key, value]) => key + '=' + encodeURIComponent(value)).join('&');
}

/* What a link asks for; what it asks wrongly is left as it is. #rank=3&t=12s is enough. */
async function readLink(link) {
  const words = new URLSearchParams(link.slice(1));
  const spotOf = (text) => (text?.endsWith('s') ? Math.round(parseFloat(text) * 1e9) : parseFloat(text));
  if (!words.has('v') && !words.has('rank')) return;
  const place = Number(words.get('memory') ?? 0);
  if (data.manifest.memories[place]) await setMemory(place);
  const x = words.get('x') ?? view.x;
  await setAxisTo(x);
  if (words.get('mode') === 'median' || words.get('mode') === 'bytes') view.mode = words.get('mode');
  view.order = ORDERS[words.get('order')] ? words.get('order') : 'rank';
  view.near = words.get('near') === '1';
  const [from, to, at] = ['from', 'to', 't'].map((key) => spotOf(words.get(key)));
  look(Number.isFinite(from) ? from : axis().begin, Number.isFinite(to) ? to : axis().end);
  if (linesOf().some(({ rank }) => rank === Number(words.get('rank')))) view.rank = Number(words.get('rank'));
  if (Number.isFinite(at)) setSpot(at);
  changed('window', 'at', 'rank', 'order', 'mode');
}
