'use strict';
// A job's page tests itself where its address ends with #selftest: blocks against the manifest, every view, 60 frames.

async function selftest() {
  const { ok, attempt, finish } = tester();
  const { manifest } = data;
  const draw = (...words) => {
    changed(...words);
    drawAll();
  };
  await attempt('every block decodes to as many bytes and rows as the manifest says', async () => {
    for (const block of blocksOf(manifest)) await read(block);
  });
  for (let place = 0; place < manifest.memories.length; place++) {
    await setMemory(place);
    drawAll();
    const whose = `in memory ${place + 1}`;
    for (const x of ['time', 'steps'].filter(hasAxis)) {
      await setAxisTo(x);
      await attempt(`the lowest, the median and the highest of each column over ${x} are those of its ranks ${whose}`, () => wrongBand(job.memory.grids[x]));
      await attempt(`each rank has its peak in its line over ${x} ${whose}`, () => wrongPeak(job.memory.grids[x]));
      for (const mode of ['bytes', 'median']) {
        for (const order of Object.keys(ORDERS)) {
          await attempt(`the heat map over ${x} is drawn, ${mode}, by ${order} ${whose}`, () => {
            Object.assign(view, { mode, order });
            draw('mode', 'order');
            return blank('heat-canvas') ?? blank('one-canvas');
          });
        }
      }
    }
    await attempt(`every rank can be selected, and says what it has ${whose}`, () => {
      for (const { rank } of [...lines.slice(0, 40), ...lines.slice(-5)]) {
        selectRank(rank);
        draw('rank');
        if (!byId('one-body').textContent || byId('one-title').textContent !== 'Rank ' + rank) return 'rank ' + rank;
        if (data.missing.size) return 'no field ' + [...data.missing].join();
      }
    });
    await attempt(`the groups at a peak are sorted by how far they are from the median ${whose}`, () => {
      for (const kind of kindsOf()) {
        setKind(kind);
        selectRank(job.memory.report.rank);
        const rows = groupRows();
        const wanted = job.memory.report.groups.filter((row) => row.kind === kind && row.bytes !== null && differs(row)).slice(0, rows.length);
        const wrong = wanted.findIndex((row, i) => differs(row) !== certain(...rows[i].over));
        if (wrong >= 0) return `${kind} ${wrong}: ${rows[wrong].over}, not ${differs(wanted[wrong])}`;
      }
    });
  }
  await setMemory(0);
  await setAxisTo('time');
  draw('order');
  await attempt('a click selects the rank and the moment below it, and the pointer says both', () => {
    const canvas = byId('heat-canvas');
    const box = canvas.getBoundingClientRect();
    const at = (type, more) => canvas.dispatchEvent(new (type === 'wheel' ? WheelEvent : PointerEvent)(type, { pointerId: 1, bubbles: true,
      clientX: box.left + LEFT + .5 * (box.width - LEFT - RIGHT), clientY: box.top + 9, ...more }));
    fit();
    view.order = 'rank';
    draw('order');
    at('pointermove');
    if (byId('heat-tip').hidden || !byId('heat-tip').textContent.includes('rank ')) return 'no tip';
    at('pointerdown');
    at('pointerup');
    drawAll();
    if (manifest.left_out.length === 0 && lines.length < 100 && view.rank !== lines[0].rank) return 'selected ' + view.rank;
    const before = view.to - view.from;
    at('wheel', { deltaY: -300 });
    if (!(view.to - view.from < before) && before > axis().least) return 'the wheel did not zoom';
    fit();
    return undefined;
  });
  await attempt('each key does what the help says, and none fails', async () => {
    const press = (key) => {
      document.body.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      drawAll();
    };
    for (const [, , keys] of RANK_KEYS) for (const key of Object.keys(keys)) press(key);
    byId('help').close();
    await setMemory(0);
    Object.assign(view, { order: 'rank', near: false });
    draw('order');
    selectRank(lines[0].rank);
    press('ArrowDown');
    if (lines.length > 1 && view.rank !== lines[1].rank) return 'the arrow selected ' + view.rank;
    if (!byId('reading').textContent.includes('rank ' + view.rank)) return 'it says ' + byId('reading').textContent;
    await setAxisTo('time');
    press('0');
    setSpot(axis().begin);
    press('ArrowRight');
    if (grid().buckets > 1 && !(view.at > axis().begin)) return 'the arrow did not move';
    return undefined;
  });
  await attempt('a link opens the same picture', async () => {
    await setAxisTo('time');
    zoom(.5, spot());
    Object.assign(view, { mode: 'median', order: 'peak' });
    const state = () => [Math.round(view.from), Math.round(view.to), Math.round(view.at), view.rank, view.mode, view.order].join();
    await readLink(linkText());
    const [before, link] = [state(), linkText()];
    fit();
    Object.assign(view, { mode: 'bytes', order: 'rank', rank: lines.at(-1).rank, at: 0 });
    await readLink(link);
    if (state() !== before) return `${state()}, not ${before}`;
    await readLink(`#rank=${lines[0].rank}&t=0.000001s`);
    if (view.rank !== lines[0].rank || (axis().begin <= 1000 && view.at !== Math.min(1000, axis().end))) return `rank ${view.rank} at ${view.at}`;
    view.mode = 'bytes';
    return undefined;
  });
  await attempt('the table of ranks is sorted by each column, and has a row for each rank', () => {
    for (let place = 0; place < RANK_COLUMNS.length; place++) {
      for (const direction of [1, 2]) {
        byId('ranks-body').querySelectorAll('th button')[place].click();
        const rows = byId('ranks-body').querySelectorAll('tr[data-rank]');
        if (rows.length !== Math.min(lines.length, TABLE_ROWS)) return `${rows.length} rows`;
        const order = byId('ranks-body').querySelectorAll('th')[place].getAttribute('aria-sort');
        if (!order) return `column ${place}, click ${direction}`;
      }
    }
    Object.assign(sorting, { column: 1, down: true });
    fillRanks();
    const [row] = byId('ranks-body').querySelectorAll('tr[data-rank]');
    row.click();
    drawAll();
    if (view.rank !== job.memory.report.highest_rank) return `the first is ${view.rank}`;
    return undefined;
  });
  await attempt('names are text: the page has no element that a name could have made', () => {
    const alien = document.querySelectorAll('main :is(script, img, iframe, object, embed, style, link, form), main [onclick], main [onerror]');
    if (alien.length) return alien[0].outerHTML.slice(0, 200);
  });
  await attempt('the page says nothing of null', () => {
    const shown = ['foot', 'verdict', 'one-body', 'groups-body', 'ranks-body', 'findings-body', 'scale'].map((id) => byId(id).textContent).join(' ');
    const wrong = manifest.file ? null : /.{0,30}\b(null|undefined|NaN)\b.{0,30}/.exec(shown);
    if (wrong) return wrong[0];
  });
  await attempt('nothing is wider than the page', () => {
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) return `${scrollWidth} of ${clientWidth} pixels`;
  });
  await attempt('each picture has a sentence, and the table behind it has rows', () => {
    for (const canvas of document.querySelectorAll('canvas[role=img]')) if (!canvas.getAttribute('aria-label')) return canvas.id;
    if (heatTable().rows.length < 2) return 'the table of the heat map';
  });
  const { frames: drawn, ...timing } = await figures();
  ok(drawn === 60, '60 frames are drawn while the window is zoomed and panned');
  finish(timing);
}

function wrongBand(of) {
  for (let b = 0; b < of.buckets; b++) {
    const values = Array.from({ length: of.rows }, (_, row) => cellAt(of, row, b)).filter((value) => !Number.isNaN(value)).sort((one, other) => one - other);
    const wanted = values.length ? [values[0], values[values.length - 1 >> 1], values.at(-1)] : [NaN, NaN, NaN];
    const seen = [of.least[b], of.median[b], of.most[b]];
    if (wanted.join() !== seen.join()) return `column ${b}: ${seen}, not ${wanted}`;
  }
  return undefined;
}

/* A grid in coarser units has it rounded up. */
function wrongPeak(of) {
  const { known, unit_bytes: unit } = of;
  for (const [rank, row] of job.memory.rowOf) {
    let most = 0;
    for (let b = known.first[row]; b < known.first[row] + known.count[row]; b++) most = Math.max(most, cellAt(of, row, b));
    const wanted = Math.ceil(job.memory.figures.get(rank).peak_bytes / unit) * unit;
    if (known.count[row] && most !== wanted) return `rank ${rank}: ${most}, not ${wanted}`;
  }
  return undefined;
}

/* What opening took, and 60 frames as a wheel would make them: into the cursor and out, then along. */
async function figures() {
  const [draws, intervals] = [[], []];
  fit();
  drawAll();
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < 60; i++) {
    if (i < 40) zoom(i < 20 ? .8 : 1.25, spot());
    else pan(i % 2 ? .05 : -.03);
    const before = performance.now();
    drawAll();
    draws.push(performance.now() - before);
    const now = await new Promise(requestAnimationFrame);
    intervals.push(now - last);
    last = now;
  }
  const rank = (values, part) => +(values.sort((a, b) => a - b)[Math.floor((values.length - 1) * part)] ?? 0).toFixed(1);
  const at = (name) => Math.round(performance.getEntriesByName(name)[0].startTime);
  return { frames: intervals.length, first_picture_ms: at('first picture'), all_ms: at('all'), draw_median_ms: rank(draws, .5),
    draw_worst_ms: rank(draws, 1), frame_median_ms: rank(intervals, .5), frame_p95_ms: rank(intervals, .95), ranks: job.ranks.length,
    buckets: grid().buckets };
}
