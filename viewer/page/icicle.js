'use strict';
// The icicle: bytes by the levels of tags and then by the frames of call stacks, of the instant, or of the mean of the
// exact instants in the selected range. Without tags and call stacks: by size class and size.

const ROW = 22;
const LEVELS = 256;     /* at most: what draws them calls itself for each, and a stack may have thousands of frames */
const icicle = { root: null, focus: null, boxes: [], chosen: null, key: null };

const node = (name, parent) => ({ name, parent, bytes: 0, count: 0, children: new Map() });

function addTo(root, path, size) {
  let at = root;
  at.bytes += size;
  at.count++;
  for (const name of path) {
    if (!at.children.has(name)) at.children.set(name, node(name, at));
    at = at.children.get(name);
    at.bytes += size;
    at.count++;
  }
}

/* The path of a life: tag by tag, then the frames from the outermost in. */
function pathOf(life) {
  const { lives, names } = data;
  const tag = names.tags[lives.tag[life]];
  const { frames } = names.stacks[lives.stack[life]];
  const path = tag.id ? tag.path.split('/') : [];
  for (let i = frames.length; i-- > 0 && path.length < LEVELS;) path.push(names.frames[frames[i]]);
  if (path.length || isNamed()) return path.length ? path : ['(no tag, no call stack)'];
  const size = lives.size[life];
  return [size ? 'from ' + bytes(2 ** Math.floor(Math.log2(size))) : '0 B', number(size) + ' bytes'];
}

const isNamed = () => data.names.tags.length > 1 || data.names.stacks.length > 1;

function icicleAnchors() {
  const { ns } = data.anchors;
  if (!view.select || view.select[0] === view.select[1]) return [anchorHere() >= 0 ? anchorHere() : nearestAnchor(view.at)].filter((i) => i >= 0);
  const [first, behind] = [firstBehind(ns, view.select[0] - 1), firstBehind(ns, view.select[1])];
  const every = Math.max(1, Math.ceil((behind - first) / 64));
  const found = [];
  for (let i = first; i < behind; i += every) found.push(i);
  return found;
}

function growIcicle() {
  const anchors = icicleAnchors();
  const key = anchors.join();
  if (key === icicle.key) return;
  const path = [];
  for (let at = icicle.focus; at?.parent; at = at.parent) path.unshift(at.name);
  icicle.key = key;
  icicle.root = node('all', null);
  for (const anchor of anchors) for (const life of liveAt(data, anchor)) addTo(icicle.root, pathOf(life), data.lives.size[life] / anchors.length);
  icicle.focus = path.reduce((at, name) => at?.children.get(name), icicle.root) ?? icicle.root;
  icicle.chosen = null;
  const there = anchors.length ? time(data.anchors.ns[anchors[0]]) : '';
  byId('icicle-of').textContent = anchors.length > 1 || view.select ? `mean of ${plural(anchors.length, 'exact instant')} in the selected range`
    : anchorHere() >= 0 ? 'at ' + there : anchors.length ? `at ${there}, the nearest exact instant` : '';
}

function placeIcicle(width) {
  const boxes = [];
  const focus = icicle.focus ?? icicle.root;
  const found = view.search.toLowerCase();
  const put = (at, x, size, depth, group, common) => {
    const box = { at, x, size, depth, group, common, match: found !== '' && at.name.toLowerCase().includes(found) };
    boxes.push(box);
    let left = x;
    const children = [...at.children.values()].sort((a, b) => b.bytes - a.bytes);
    /* Where there is little room, a name goes without what its neighbours begin with, too. */
    const same = alike(children.map(({ name }) => name).filter((name) => !name.startsWith('(')));
    children.forEach((child, i) => {
      const part = at.bytes ? child.bytes / at.bytes * size : 0;
      if (part >= .5) put(child, left, part, depth + 1, depth ? group : i, same);
      left += part;
    });
  };
  put(focus, 0, width, 0, 0, 0);
  return boxes;
}

function drawIcicle() {
  if (!icicle.root) return;
  const canvas = byId('icicle-canvas');
  icicle.boxes = placeIcicle(drawnWidth(canvas));
  const depth = icicle.boxes.reduce((most, box) => Math.max(most, box.depth), 0);
  canvas.style.height = Math.max(2, depth + 1) * ROW + 2 + 'px';
  const { pen } = begin(canvas);
  pen.textAlign = 'left';
  for (const box of icicle.boxes) {
    const y = box.depth * ROW + 1;
    const wide = Math.max(box.size - 1, .5);
    pen.globalAlpha = !box.depth ? 1 : box.depth % 2 ? .34 : .24;
    pen.fillStyle = box.match ? theme.warn : box.depth ? groupColour(box.group) : theme.grid;
    pen.fillRect(box.x, y, wide, ROW - 1);
    pen.globalAlpha = 1;
    if (box.match || box.at === icicle.chosen) {
      pen.strokeStyle = box.match ? theme.warn : theme.accent;
      pen.lineWidth = 2;
      pen.strokeRect(box.x + 1, y + 1, Math.max(wide - 2, 1), ROW - 3);
    }
    if (wide < 30) continue;
    pen.fillStyle = theme.ink;
    const of = bytes(box.at.bytes);
    const room = (text) => pen.measureText(text).width + 12 <= wide;
    const { name } = box.at;
    const isShort = room(name) || box.common < 4 || name.startsWith('(');
    const text = room(name + '  ' + of) ? name + '  ' + of : isShort ? name : '…' + name.slice(box.common);
    pen.fillText(fitted(pen, text, wide - 10), box.x + 5, y + ROW / 2);
  }
  const up = byId('icicle-up');
  if (!icicle.focus?.parent && document.activeElement === up) canvas.focus();
  up.disabled = !icicle.focus?.parent;
}

function icicleLines(at) {
  const path = [];
  for (let step = at; step?.parent; step = step.parent) path.unshift(step.name);
  return [at.name, `${bytes(at.bytes)}, ${share(icicle.root.bytes ? at.bytes / icicle.root.bytes : 0)} of all`, path.slice(0, -1).join(' › ')].filter(Boolean);
}

function boxAt(x, y) {
  return icicle.boxes.find((box) => box.depth === Math.floor(y / ROW) && x >= box.x && x < box.x + box.size);
}

function focusOn(at) {
  if (!at) return;
  icicle.focus = icicle.chosen = at;
  changed('search');
}

function watchIcicle() {
  const canvas = byId('icicle-canvas');
  canvas.addEventListener('pointermove', (event) => {
    const box = boxAt(event.offsetX, event.offsetY);
    showTip(byId('icicle-tip'), canvas, event.offsetX, event.offsetY, box ? icicleLines(box.at) : null);
  });
  canvas.addEventListener('pointerleave', () => { byId('icicle-tip').hidden = true; });
  canvas.addEventListener('click', (event) => {
    const box = boxAt(event.offsetX, event.offsetY);
    focusOn(box && box.at === icicle.focus ? box.at.parent : box?.at);
  });
  canvas.addEventListener('keydown', (event) => {
    if (!icicle.root) return;
    const at = icicle.chosen ?? icicle.focus ?? icicle.root;
    const beside = at.parent ? [...at.parent.children.values()].sort((a, b) => b.bytes - a.bytes) : [at];
    const next = { ArrowLeft: () => beside[beside.indexOf(at) - 1], ArrowRight: () => beside[beside.indexOf(at) + 1],
      ArrowUp: () => at.parent, ArrowDown: () => [...at.children.values()].sort((a, b) => b.bytes - a.bytes)[0] }[event.key];
    if (event.key === 'Enter') focusOn(at);
    if (event.key === 'Backspace') focusOn((icicle.focus ?? icicle.root).parent);
    if (!next?.()) return;
    icicle.chosen = next();
    if (event.key === 'ArrowUp' && at === icicle.focus) icicle.focus = icicle.chosen;
    byId('reading').textContent = icicleLines(icicle.chosen).join(', ');
    changed('search');
    event.preventDefault();
  });
  byId('icicle-up').addEventListener('click', () => focusOn(icicle.focus?.parent));
  byId('search').addEventListener('input', (event) => {
    view.search = event.target.value;
    changed('search');
  });
}

/* The outermost nodes that match, so that nothing counts twice. */
function matched(at, found) {
  if (at.name.toLowerCase().includes(found)) return at.bytes;
  return [...at.children.values()].reduce((sum, child) => sum + matched(child, found), 0);
}

function iciclePart(what) {
  if (!data.lives || !['at', 'select', 'search', 'rest', 'theme', 'resize'].some((word) => what.has(word))) return;
  growIcicle();
  if (what.has('rest')) byId('icicle-title').textContent = isNamed() ? 'Tags and call stacks' : 'Sizes';
  if (what.has('search')) byId('search').value = view.search;
  drawIcicle();
  const { root } = icicle;
  const found = view.search ? `; ${bytes(matched(root, view.search.toLowerCase()))} match “${view.search}”` : '';
  if (view.search && what.has('search')) byId('reading').textContent = found.slice(2);
  byId('icicle-canvas').setAttribute('aria-label', `${bytes(root.bytes)} by ${isNamed() ? 'tag and call stack' : 'size'}, ` +
    `the largest first${found}. Arrow keys walk through it, Enter zooms.`);
  if (byId('icicle-table').parentElement.open) byId('icicle-table').replaceChildren(icicleTable());
}

function icicleTable() {
  const rows = icicle.boxes.slice(0, 200);
  return table('The parts that are drawn, 200 at most', rows, [['level', (box) => box.depth, 'n'], ['bytes', (box) => bytes(box.at.bytes), 'n'],
    ['name', (box) => box.at.name, 'name']]);
}
