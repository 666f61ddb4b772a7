'use strict';
// The page tests itself where its address ends with #selftest: blocks against the manifest, every view, 60 frames.

async function selftest() {
  const { ok, attempt, finish } = tester();
  const { manifest, anchors, lives, series } = data;
  await attempt('every block decodes to as many bytes and rows as the manifest says', async () => {
    for (const block of blocksOf(manifest)) await read(block);
  });
  await attempt('the timelines have the peak and the number of events', () => {
    const most = Object.values(series).map(({ levels }) => levels.at(-1).most[0] ?? 0);
    const events = series.time.events.reduce((sum, value) => sum + value, 0);
    if (most.some((value) => value !== (manifest.peak?.bytes ?? 0))) return 'peaks ' + most.join();
    if (events !== manifest.events) return events + ' events';
  });
  await attempt('the groups of each bucket add up to the most that was live in it', async () => {
    for (const by of data.groupings) {
      for (const x of Object.keys(AXES)) {
        const found = await groupsOf(data, by, x);
        const each = found.width / series[x].width;
        for (let b = 0; b < found.rows; b++) {
          const most = series[x].levels[0].most.subarray(b * each, (b + 1) * each).reduce((high, value) => Math.max(high, value), 0);
          if (most !== found.total[b]) return `${by} over ${x}, bucket ${b}: ${found.total[b]}, not ${most}`;
        }
      }
    }
  });
  await attempt('the live set at each exact instant has the bytes and the count that the manifest says', () => {
    for (let i = 0; i < anchors.rows; i++) {
      const rows = liveAt(data, i);
      const size = rows.reduce((sum, life) => sum + lives.size[life], 0);
      if (size !== anchors.kept_bytes[i] || rows.length !== anchors.kept_count[i]) return `instant ${i}: ${size} in ${rows.length}`;
      if (!anchors.least_bytes[i] && size !== anchors.bytes[i]) return `instant ${i}: ${size}, not ${anchors.bytes[i]}`;
    }
  });
  await attempt('the peak is an exact instant', () => {
    if (manifest.peak && !anchors.ns.some((ns, i) => ns === manifest.peak.ns && anchors.bytes[i] === manifest.peak.bytes)) return 'it is none';
  });
  await attempt('the live set at the peak has in each group what the timeline has there', async () => {
    const at = anchors.ns.indexOf(manifest.peak?.ns);
    if (at < 0 || anchors.least_bytes[at]) return undefined;
    for (const by of data.groupings) {
      const [groupOf, found] = [await groupTable(data, by), await groupsOf(data, by, 'time')];
      const sums = found.values.map(() => 0);
      for (const life of liveAt(data, at)) {
        if (!(groupOf(life) in sums)) return `${by}: life ${life} is of no group`;
        sums[groupOf(life)] += lives.size[life];
      }
      const bucket = Math.floor((manifest.peak.ns - found.begin) / found.width);
      const wrong = sums.findIndex((sum, g) => sum !== found.values[g][bucket]);
      if (wrong >= 0) return `${by} ${manifest.groups[by].series[wrong].name}: ${sums[wrong]}, not ${found.values[wrong][bucket]}`;
    }
    return undefined;
  });
  await attempt('the matrix of sizes by lifetimes has all allocations, and the same sums as the tables beside it', () => {
    const { size, lived, allocations } = data.matrix;
    const sum = (classes, of) => allocations.reduce((all, value, i) => all + (classes === null || classes[i] === of ? value : 0), 0);
    if (sum(null) !== manifest.allocations) return sum(null) + ' allocations';
    const { sizes = [], lifetimes = [] } = data.reports.histogram ?? {};
    for (const row of sizes) {
      const found = sum(size, row.from_bytes ? Math.log2(row.from_bytes) + 1 : 0);
      if (found !== row.allocations) return `from ${row.from_bytes} bytes on ${found}, not ${row.allocations}`;
    }
    for (const row of lifetimes.filter(({ from_ns: from }) => from !== null)) {
      const found = sum(lived, row.from_ns ? Math.round(Math.log10(row.from_ns)) + 1 : 0);
      if (found !== row.allocations) return `from ${row.from_ns} ns on ${found}, not ${row.allocations}`;
    }
    return undefined;
  });
  await attempt('the reports say the same as the manifest', () => {
    const { peak, leaks, failures } = data.reports;
    if (peak && peak.peak_bytes !== (manifest.peak?.bytes ?? 0)) return 'peak ' + peak.peak_bytes;
    if (leaks && !leaks.suppressed_count && leaks.live_bytes !== manifest.live.bytes) return 'live ' + leaks.live_bytes;
    if (failures && failures.failures.length > manifest.failures_count) return 'failures ' + failures.failures.length;
  });
  for (const x of Object.keys(AXES)) {
    for (const by of data.groupings) {
      await attempt(`the timeline by ${by} over ${x} is drawn`, async () => {
        setAxis(x);
        setGrouping(by);
        stack = await groupsOf(data, by, x);
        fit();
        drawAll();
        return blank('timeline-canvas');
      });
    }
    for (const colour of data.map ? Object.keys(MAP_COLOURS) : []) {
      await attempt(`the address map over ${x} is drawn by ${colour}`, async () => {
        view.colour = colour;
        await mapPart(new Set(['colour']));
        return blank('map-canvas');
      });
    }
  }
  view.colour = 'occupied';
  await attempt('instants and icicle are drawn, exact and in between, of an instant and of a range', async () => {
    goTo(manifest.peak?.ns ?? data.begin);
    await instantPart(new Set(['at']));
    if (manifest.peak && !byId('instant-body').querySelector('tbody td')) return 'the peak has no blocks';
    for (const ns of [view.at, data.begin, (data.begin + data.end) / 2 | 0]) {
      goTo(ns);
      await instantPart(new Set(['at']));
      iciclePart(new Set(['at']));
    }
    view.select = [data.begin, data.end];
    iciclePart(new Set(['select']));
    rangePart(new Set(['select']));
    clearAll();
    if (!byId('instant-body').textContent) return 'no instant';
    return blank('icicle-canvas');
  });
  for (const tab of shownTabs()) {
    await attempt(`the tab ${tab.title} is filled`, () => {
      setTab(tab.id);
      drawAll();
      if (byId('panel-' + tab.id).hidden || byId('panel-' + tab.id).textContent.length < tab.title.length + 5) return 'it is empty';
      if (data.missing.size) return 'no field ' + [...data.missing].join();
    });
  }
  await attempt('each key does what the help says, and none fails', () => {
    for (const [, , keys] of KEYS) {
      for (const key of Object.keys(keys)) {
        document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
        drawAll();
      }
    }
    byId('help').close();
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: '0', bubbles: true }));
    const { from } = view;
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowUp', bubbles: true }));
    drawAll();
    if (data.manifest.events > 100 && view.from === from && view.to === axis().end) return 'the arrow did not zoom';
  });
  await attempt('the pointer shows what it is on, picks an instant, selects a range, zooms and pans', () => {
    const canvas = byId('timeline-canvas');
    const box = canvas.getBoundingClientRect();
    const at = (type, part, more) => canvas.dispatchEvent(new (type === 'wheel' ? WheelEvent : PointerEvent)(type, { pointerId: 1, bubbles: true,
      clientX: box.left + LEFT + part * (box.width - LEFT - RIGHT), clientY: box.top + box.height * .7, ...more }));
    fit();
    view.select = null;
    at('pointermove', .5);
    if (byId('tip').hidden) return 'no tip';
    at('pointerdown', .25);
    at('pointerup', .25);
    const middle = atX(LEFT + .25 * (box.width - LEFT - RIGHT), box.width);
    if (manifest.peak && Math.abs(xOf(axis().of(view.at), box.width) - xOf(middle, box.width)) > 8) return 'a click looks at ' + view.at;
    for (const [type, part] of [['pointerdown', .2], ['pointermove', .6], ['pointerup', .6]]) at(type, part, { shiftKey: true });
    if (!view.select || view.select[0] > view.select[1]) return 'selected ' + view.select;
    const before = view.to - view.from;
    at('wheel', .5, { deltaY: -300 });
    if (before > axis().least && !(view.to - view.from < before)) return 'the wheel did not zoom';
    const { from } = view;
    for (const [type, part] of [['pointerdown', .6], ['pointermove', .5], ['pointerup', .5]]) at(type, part);
    if (before > axis().least && view.from <= from) return 'a drag did not pan';
    clearAll();
    return undefined;
  });
  await attempt('of all changes before a frame one picture is drawn, and of no change none', async () => {
    let drawn = 0;
    parts.push(() => drawn++);
    for (const factor of [.5, 2, .5]) zoom(factor);
    await frame();
    await frame();
    drawAll();
    parts.pop();
    if (drawn !== 1) return `${drawn} pictures`;
  });
  await attempt('while the window moves, nothing but pictures changes in the page', async () => {
    const seen = [];
    clearAll();
    await frame();
    const observer = new MutationObserver((records) => seen.push(...records));
    settle();
    observer.observe(document.body, { subtree: true, childList: true, attributes: true, characterData: true });
    for (let i = 0; i < 5; i++) {
      zoom(.9);
      await frame();
    }
    observer.disconnect();
    if (seen.length) return `${seen[0].target.id} ${seen[0].attributeName ?? ''}`;
  });
  await attempt('the address map by group is painted anew once the window rests, and not before', async () => {
    if (!data.map) return undefined;
    view.colour = 'group';
    await mapPart(new Set(['colour']));
    settle();
    const { from } = mapImages.detail;
    zoom(.5);
    drawAll();
    const [moved, before] = [view.from, mapImages.detail.from];
    settle();
    const after = mapImages.detail.from;
    view.colour = 'occupied';
    await mapPart(new Set(['colour']));
    if (before !== from || after !== moved) return `${from}, ${before}, ${after} of ${moved}`;
    return undefined;
  });
  await attempt('each column of the timeline has the colours of its groups, one above the other', async () => {
    if (!view.by) return undefined;
    setAxis('time');
    fit();
    drawAll();
    stack = await groupsOf(data, view.by, view.x);
    for (const group of [null, 0, 1]) {
      if (group !== null) view.hidden.add(group);
      changed('window');
      drawAll();
      const why = wrongColumn();
      if (why) return why;
    }
    view.hidden.clear();
    return undefined;
  });
  await attempt('a link opens the same picture', () => {
    setAxis('time');
    zoom(.5);
    setTab('about');
    readLink(linkText());
    const state = () => [Math.round(view.from), Math.round(view.to), view.at, view.by, view.tab].join();
    const [before, link] = [state(), linkText()];
    fit();
    Object.assign(view, { tab: 'peak', by: '', at: 0 });
    readLink(link);
    const after = state();
    if (after !== before) return `${after}, not ${before}`;
    for (const select of [[0, 700], [500, 1500000001], [-20, -3]]) {
      view.select = select;
      readLink(linkText());
      if (view.select?.join() !== select.join()) return `selected ${view.select}, not ${select}`;
    }
    clearAll();
  });
  await attempt('names are text: the page has no element that a name could have made', () => {
    const alien = document.querySelectorAll('main :is(script, img, iframe, object, embed, style, link, form), main [onclick], main [onerror]');
    if (alien.length) return alien[0].outerHTML.slice(0, 200);
  });
  await attempt('a page without names says nothing of null', () => {
    for (const tab of shownTabs()) fillPanel(tab);
    const shown = ['foot', 'verdict', 'panels'].map((id) => byId(id).textContent).join(' ');
    const wrong = data.manifest.of ? null : /.{0,30}\b(null|undefined|NaN)\b.{0,30}/.exec(shown);
    if (wrong) return wrong[0];
  });
  await attempt('nothing is wider than the page', () => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) return `${scrollWidth} of ${clientWidth} pixels`;
  });
  await attempt('each picture has a sentence, and the table behind it has rows', () => {
    for (const canvas of document.querySelectorAll('canvas[role=img]')) if (!canvas.getAttribute('aria-label') && !canvas.closest('[hidden]')) return canvas.id;
    if (timelineTable().rows.length !== 65) return 'the timeline’s table';
  });
  const { frames: drawn, ...timing } = await figures();
  ok(drawn === 60, '60 frames are drawn while the window is zoomed and panned');
  finish(timing);
}

const frame = () => new Promise(requestAnimationFrame);

/* The first group whose middle in a column has another colour. What is drawn above it has the ink, or nearly the accent. */
function wrongColumn() {
  const canvas = begin(byId('timeline-canvas'));
  const { cells, across } = cellsOf(canvas, canvas.height - AXIS);
  const columns = pixelColumns(across);
  const picked = bucketsOf(columns);
  const scale = (canvas.height - AXIS - TOP) / timelineScale() * canvas.ratio;
  changed('window');
  drawAll();
  for (let i = 0; i < across; i += 7) {
    const total = stack.total[picked[i]];
    let sum = 0;
    for (let g = 0; g < stack.values.length; g++) {
      if (view.hidden.has(g)) continue;
      const high = stack.values[g][picked[i]] * Math.min(1, columns.most[i] / (total || 1)) * scale;
      const row = Math.round((canvas.height - AXIS) * canvas.ratio - sum - high / 2);
      const shades = [1, .7].map((part) => pixel(channels(groupColour(g)).map((c, k) => Math.round(c * part + channels(theme.paper)[k] * (1 - part)))));
      const found = cells[row * across + i];
      const others = [theme.ink, ...(isHatched(g) ? [theme.paper] : [])].map((colour) => pixel(channels(colour)));
      if (high > 4 && !shades.includes(found) && !others.includes(found)) return `column ${i}, group ${g}: ${found.toString(16)}`;
      sum += high;
    }
  }
  return undefined;
}

/* 60 frames as a wheel would make them: into the peak and out, then along. */
async function moved() {
  const [draws, intervals] = [[], []];
  fit();
  drawAll();
  let last = await frame();
  for (let i = 0; i < 60; i++) {
    if (i < 40) zoom(i < 20 ? .8 : 1.25);
    else pan(i % 2 ? .05 : -.03);
    const before = performance.now();
    drawAll();
    draws.push(performance.now() - before);
    const now = await frame();
    intervals.push(now - last);
    last = now;
  }
  return [draws, intervals];
}

/* What opening took, the frames, and the live sets. */
async function figures() {
  const [draws, intervals] = await moved();
  const sets = [];
  for (let anchor = 0; anchor < data.anchors.rows; anchor++) {
    const before = performance.now();
    liveAt(data, anchor);
    sets.push(performance.now() - before);
  }
  const rank = (values, part) => +(values.sort((a, b) => a - b)[Math.floor((values.length - 1) * part)] ?? 0).toFixed(1);
  const at = (name) => Math.round(performance.getEntriesByName(name)[0].startTime);
  return { frames: intervals.length, first_picture_ms: at('first picture'), all_ms: at('all'), draw_median_ms: rank(draws, .5),
    draw_worst_ms: rank(draws, 1), frame_median_ms: rank(intervals, .5), frame_p95_ms: rank(intervals, .95),
    live_set_p95_ms: rank(sets, .95), live_set_worst_ms: rank(sets, 1), anchors: data.anchors.rows, lives: data.lives.rows };
}
