'use strict';
// The data of a job's page (doc/report.md): its ranks, and for each memory their figures over time and over steps.

const MISSING_SHOWN = 4096;   /* more missing ranks than this are told in words alone */
const job = { ranks: [], memories: [], reports: null, failures: [], marks: [], missing: [], memory: null };

/* A grid as bytes: NaN where nothing is known of a rank. */
async function openGrid(block, rows) {
  if (!block) return null;
  const [{ over }, known, band] = await Promise.all([read(block.cells), read(block.known), read(block.band)]);
  const { buckets, unit_bytes: unit } = block;
  const inBytes = (values) => Float64Array.from(values, (value) => value * unit);
  const grid = { ...block, rows, cells: over instanceof Float64Array ? over : Float64Array.from(over), known,
    least: inBytes(band.least), median: inBytes(band.median), most: inBytes(band.most), highest: 1, furthest: 1 };
  for (let row = 0; row < rows; row++) {
    const [first, end] = [known.first[row], known.first[row] + known.count[row]];
    for (let b = 0, i = row * buckets; b < buckets; b++, i++) {
      if (b < first || b >= end) {
        grid.cells[i] = NaN;
        continue;
      }
      const away = Math.abs(grid.cells[i] * unit);
      grid.cells[i] = grid.cells[i] * unit + grid.median[b];
      if (away > grid.furthest) grid.furthest = away;
      if (grid.cells[i] > grid.highest) grid.highest = grid.cells[i];
    }
  }
  return grid;
}

/* One memory, decoded when it is first looked at. */
function openMemory(place) {
  return once(job, 'memory ' + place, async () => {
    const memory = data.manifest.memories[place];
    const [rows, groups, shares] = await Promise.all([read(memory.rows), read(memory.groups), read(memory.shares)]);
    const [over, steps] = await Promise.all([openGrid(memory.time, rows.rows), openGrid(memory.steps, rows.rows)]);
    const rowOf = new Map(Array.from(rows.rank, (at, row) => [job.ranks[at].rank, row]));
    const report = place ? job.reports.other_memories[place - 1] : job.reports.ranks;
    const figures = new Map(report.by_rank.map((row) => [row.rank, row]));
    const wholeSteps = rows.whole_steps;
    return { place, name: memory.memory, rowOf, groups, shares, report, figures, wholeSteps, grids: { time: over, steps } };
  });
}

/* "5, 7-9" as numbers. */
function missingRanks(text) {
  const list = [];
  for (const part of (text ?? '').split(', ').filter(Boolean)) {
    const [first, last] = part.split('-').map(Number);
    for (let rank = first; rank <= (last ?? first) && list.length <= MISSING_SHOWN; rank++) list.push(rank);
  }
  return list;
}

async function openJob(manifest) {
  data.manifest = manifest;
  [job.ranks, job.reports] = await Promise.all([read(manifest.ranks), read(manifest.reports)]);
  job.byRank = new Map(job.ranks.map((rank) => [rank.rank, rank]));
  const missing = missingRanks(job.reports.ranks.missing);
  job.missing = missing.length + job.ranks.length <= MISSING_SHOWN ? missing : [];
  job.memory = await openMemory(0);
}

/* What the first picture can do without. */
async function openJobRest(manifest) {
  [job.failures, job.marks] = await Promise.all([read(manifest.failures), read(manifest.marks)]);
}

const grid = () => job.memory.grids[view.x];

/* What a rank has in the buckets from one to another: the most, or what is furthest from the median. NaN: not known. */
function cellOf(row, first, last) {
  const { cells, buckets, median } = grid();
  let found = NaN;
  for (let b = first, i = row * buckets + first; b <= last; b++, i++) {
    const value = view.mode === 'median' ? cells[i] - median[b] : cells[i];
    if (Number.isNaN(found) || Math.abs(value) > Math.abs(found)) found = value;
  }
  return found;
}

const bucketAt = (at) => Math.min(grid().buckets - 1, Math.max(0, Math.floor((at - grid().begin) / grid().width)));

/* The lines of the heat map: all ranks, also those that are missing or have nothing of this memory. */
function linesOf() {
  const lines = [...job.ranks.map(({ rank, hostname }) => ({ rank, host: hostname })), ...job.missing.map((rank) => ({ rank, host: null }))]
    .map((line) => ({ ...line, row: job.memory.rowOf.get(line.rank) ?? -1, peak: job.memory.figures.get(line.rank)?.peak_bytes ?? -1 }));
  const orders = { rank: (a, b) => a.rank - b.rank, peak: (a, b) => b.peak - a.peak || a.rank - b.rank,
    host: (a, b) => (a.host ?? '\uffff').localeCompare(b.host ?? '\uffff', 'en', { numeric: true }) || a.rank - b.rank };
  return lines.sort(orders[view.order]);
}

/* When something happened on a rank, in the time of the job. */
const jobTime = (rank, ns) => ns + (job.byRank.get(rank)?.start_ns ?? 0);
