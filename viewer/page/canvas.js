'use strict';
// What all pictures share: sharp canvases, the theme's colours, the groups' colours and hatches, tips.

/* Okabe and Ito's colours, which people of all kinds of colour vision tell apart; from the ninth group on, hatched. */
const GROUP_COLOURS = ['#0072b2', '#e69f00', '#009e73', '#56b4e9', '#d55e00', '#cc79a7', '#f0e442', '#8c8c8c'];
const FONT = '12px system-ui, "Segoe UI", "Noto Sans", "Liberation Sans", sans-serif';
const LEFT = 68;
const RIGHT = 12;
const TOP = 18;
const AXIS = 24;

let theme = {};
let printing = false;

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  theme = {};
  for (const name of ['paper', 'ground', 'ink', 'quiet', 'rule', 'grid', 'accent', 'wash', 'bad', 'warn', 'low', 'high']) {
    theme[name] = style.getPropertyValue('--' + name).trim();
  }
}

/* On paper all pictures are as wide, whatever the window was; the style keeps their shape. */
const drawnWidth = (canvas) => (printing ? 1000 : canvas.clientWidth || 800);

/* The canvas' context, cleared, in CSS pixels; at twice the resolution where it is printed. */
function begin(canvas) {
  const ratio = printing ? 2 : Math.min(window.devicePixelRatio || 1, 2);
  const width = drawnWidth(canvas);
  const height = canvas.clientHeight || 200;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext('2d');
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = FONT;
  pen.textBaseline = 'middle';
  pen.lineWidth = 1;
  return { pen, width, height, ratio };
}

/* The cells of the picture between `LEFT` and `RIGHT`, one for each pixel of the canvas, empty. What has an edge in each
   column is painted into them: as paths it took three times as long where no graphics card draws. */
function cellsOf({ pen, width, ratio }, bottom) {
  const across = Math.max(1, Math.floor((width - LEFT - RIGHT) * ratio));
  const down = Math.max(1, Math.round(bottom * ratio));
  const kept = cellsOf.kept ??= new WeakMap();
  let image = kept.get(pen.canvas);
  if (image?.width !== across || image.height !== down) kept.set(pen.canvas, image = pen.createImageData(across, down));
  const cells = new Uint32Array(image.data.buffer).fill(0);
  return { cells, across, down, ratio, put: () => pen.putImageData(image, Math.round(LEFT * ratio), 0) };
}

const groupColour = (group) => GROUP_COLOURS[group % GROUP_COLOURS.length];
const isHatched = (group) => group % 16 >= GROUP_COLOURS.length;

/* #rrggbb of the theme as [r, g, b]. */
function channels(colour) {
  const full = colour.length === 4 ? colour.replace(/[^#]/g, '$&$&') : colour;
  return [1, 3, 5].map((at) => parseInt(full.slice(at, at + 2), 16));
}

/* 256 colours from one to the other as 32-bit pixels. */
function ramp(low, high) {
  const [from, to] = [channels(low), channels(high)];
  return Uint32Array.from({ length: 256 }, (_, i) => pixel(from.map((part, c) => part + (to[c] - part) * i / 255)));
}

const pixel = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;

/* The text, shortened at its end to fit. */
function fitted(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let length = Math.max(0, Math.floor(text.length * width / pen.measureText(text).width) - 1);
  while (length > 0 && pen.measureText(text.slice(0, length) + '…').width > width) length--;
  return length > 2 ? text.slice(0, length) + '…' : '';   /* two letters tell nothing */
}

function swatch(group) {
  const box = make('i', { className: isHatched(group) ? 'swatch hatched' : 'swatch' });
  box.style.backgroundColor = groupColour(group);
  return box;
}

/* Lines beside the pointer, within the picture. */
function showTip(tip, canvas, x, y, lines) {
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map((line) => make('div', null, line)));
  const right = x > canvas.clientWidth / 2;
  tip.style.left = right ? '' : x + 14 + 'px';
  tip.style.right = right ? canvas.clientWidth - x + 14 + 'px' : '';
  tip.style.top = Math.max(0, Math.min(y + 10, canvas.clientHeight - tip.offsetHeight)) + 'px';
}

/* Sizes at the left edge, with lines below what is painted; y(bytes) is where they lie. */
function drawBytesAxis(pen, width, bottom, most, y) {
  pen.textAlign = 'right';
  pen.globalCompositeOperation = 'destination-over';
  for (const value of ticks(0, most, 5, 2).list) {
    const at = Math.round(y(value)) + .5;
    pen.fillStyle = value ? theme.grid : theme.rule;
    pen.fillRect(LEFT, at - .5, width - LEFT - RIGHT, 1);
    pen.fillStyle = theme.quiet;
    pen.fillText(bytes(value), LEFT - 8, at);
  }
  pen.globalCompositeOperation = 'source-over';
}

/* The horizontal axis of timeline and map, drawn below `bottom`. */
function drawAxis(pen, width, bottom) {
  const { step, list } = ticks(view.from, view.to, (width - LEFT - RIGHT) / 90, axis().base);
  pen.fillStyle = theme.quiet;
  pen.textAlign = 'center';
  pen.strokeStyle = theme.rule;
  let free = 0;
  if (view.x === 'events') pen.fillText('events', (LEFT - 12) / 2, bottom + 13);
  for (const at of list) {
    const x = Math.round(xOf(at, width)) + .5;
    const text = axis().text(at, step);
    const half = pen.measureText(text).width / 2;
    const middle = Math.min(Math.max(x, half + 1), width - half - 1);
    if (middle - half < free) continue;
    free = middle + half + 12;
    pen.fillText(text, middle, bottom + 13);
    pen.beginPath();
    pen.moveTo(x, bottom);
    pen.lineTo(x, bottom + 4);
    pen.stroke();
  }
}

/* The cursor and the selected range, over any picture with the shared axis. */
function drawCursor(pen, width, top, bottom) {
  if (view.select) {
    const [a, b] = view.select.map((ns) => Math.min(Math.max(xOf(axis().of(ns), width), LEFT), width - RIGHT));
    pen.fillStyle = theme.accent;
    pen.globalAlpha = .16;
    pen.fillRect(a, top, Math.max(1, b - a), bottom - top);
    pen.globalAlpha = 1;
  }
  const x = Math.round(xOf(axis().of(view.at), width)) + .5;
  if (x < LEFT || x > width - RIGHT + 1 || !data.manifest.peak) return;
  pen.strokeStyle = theme.ink;
  pen.beginPath();
  pen.moveTo(x, top);
  pen.lineTo(x, bottom);
  pen.stroke();
}
