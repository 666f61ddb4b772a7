'use strict';
// Figures in words, and elements made of text: names of a trace never become markup.

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

function number(value, digits) {
  return value.toLocaleString('en-US', { maximumFractionDigits: digits ?? 0 });
}

/* Four digits that count, as the commands print them. */
function bytes(value, digits) {
  if (value === null || value === undefined) return '–';
  let unit = 0;
  let rest = Math.abs(value);
  for (; rest >= 1024 && unit < 6; unit++) rest /= 1024;
  const places = unit === 0 ? 0 : digits ?? (rest < 10 ? 2 : rest < 100 ? 1 : 0);
  return (value < 0 ? '−' : '') + number(rest, places) + ' ' + BYTE_UNITS[unit];
}

const signed = (value) => (value > 0 ? '+' : '') + bytes(value);

/* A figure of which two ends are known, which may be the same. */
function bytesBetween(least, most) {
  return bytes(least) === bytes(most) ? bytes(least) : `${bytes(least)} to ${bytes(most)}`;
}

function signedBetween(least, most) {
  return signed(least) === signed(most) ? signed(least) : `between ${signed(least)} and ${signed(most)}`;
}

/* A moment or a duration; step, in ns, says how fine it has to be told. */
function time(ns, step) {
  if (ns === null || ns === undefined) return '–';
  const size = Math.abs(ns);
  if (step === undefined) step = size / 1000;
  const [unit, word] = size >= 1e9 || step >= 1e8 ? [1e9, 's'] : size >= 1e6 || step >= 1e5 ? [1e6, 'ms']
    : size >= 1e3 ? [1e3, 'µs'] : [1, 'ns'];
  if (size >= 600e9) {
    const s = Math.floor(size / 1e9);
    return (ns < 0 ? '−' : '') + [Math.floor(s / 3600), Math.floor(s / 60) % 60, s % 60]
      .map((part, i) => (i ? String(part).padStart(2, '0') : part)).join(':') + (step < 1e9 ? '.' + String(size % 1e9 / 1e9
        .toFixed(3)).slice(2, 5) : '');
  }
  const places = Math.max(0, Math.min(9, Math.ceil(-Math.log10(step / unit) - 1e-9)));
  return number(ns / unit, places) + ' ' + word;
}

/* To the nanosecond, for links. */
function exactTime(ns) {
  /* String() would write "5e-7", whose "-" divides a link. */
  return (ns / 1e9).toFixed(9).replace(/\.?0+$/, '') + 's';
}

const count = (value) => (value === null || value === undefined ? '–' : number(value));
const share = (value) => (value === null || value === undefined ? '–' : value > 0 && value < .0005 ? '<0.1%'
  : number(value * 100, Math.abs(value) < .1 ? 1 : 0) + '%');
const plural = (value, one, many) => count(value) + ' ' + (value === 1 ? one : many ?? one + 's');

/* Frames, a name, or the word for none. */
const nameOf = (row) => (row.callstack ? row.callstack.join(' < ') : row.name ?? '(none)');

/* make('td', {className: 'n'}, 'text', element, ...): strings become text, null is left out. */
function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (key in element && key !== 'role') element[key] = value;
    else element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/* A long name without its middle: its ends tell most. */
function shortened(text, length) {
  return text.length <= length ? text : text.slice(0, length >> 1) + '…' + text.slice(-(length >> 1));
}

/* How many letters all texts begin with alike. */
function alike(texts) {
  let length = texts.length > 1 ? texts[0].length : 0;
  for (const text of texts) while (!text.startsWith(texts[0].slice(0, length))) length--;
  return length;
}

/* A function that takes from names longer than `length` the beginning and the end that all of them share. */
function toldApart(names, length) {
  const long = names.filter((name) => name.length > length);
  const [head, tail] = [alike(long), alike(long.map((name) => [...name].reverse().join('')))].map((same) => (same > 3 ? same : 0));
  return (name) => {
    const rest = name.slice(head, name.length - tail);
    return name.length > length && rest.length > 1 ? (head ? '…' : '') + rest + (tail ? '…' : '') : name;
  };
}

const byId = (id) => document.getElementById(id);

/* Round numbers between from and to, at most `most` of them. */
function ticks(from, to, most, bases) {
  const least = (to - from) / Math.max(1, most);
  let step = 1;
  if (bases === 2) {
    step = 2 ** Math.ceil(Math.log2(Math.max(least, 1)));
  } else {
    const unit = bases === 60 && least > 20e9 ? (least > 1200e9 ? 3600e9 : 60e9) : 10 ** Math.floor(Math.log10(Math.max(least, 1)));
    step = unit * ([1, 2, 5, 10, 15, 30, 60].find((factor) => unit * factor >= least) ?? Math.ceil(least / unit));
  }
  const list = [];
  for (let at = Math.ceil(from / step) * step; at <= to && list.length < 100; at += step) list.push(at);
  return { step, list };
}
