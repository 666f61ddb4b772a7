'use strict';
// The data of a job's page (doc/report.md): its ranks, and for each memory their figures over time and over steps.

const MISSING_SHOWN = 4096;   /* more missing ranks than this are told in words alone */
const job = { ranks: [], memories: [], reports: null, failures: [], marks: [], missing: [], memory: null };

/* Of which buckets anything is known. */
function knownColumns({ first, count: known }, rows, buckets) {
  const changes = new Int32Array(buckets + 1);
  for (let row = 0; row < rows; row++) {
    changes[first[row]]++;
    changes[first[row] + known[row]]--;
  }
  let open = 0;
  return Array.from({ length: buckets }, (_, b) => (open += changes[b]) > 0);
}

/* A grid: its cells are in units of unit_bytes, the rest in bytes; NaN where nothing is known of any rank. */
async function openGrid(block, rows) {
  const [{ over }, known, band] = await Promise.all([read(block.cells), read(block.known), read(block.band)]);
  const { buckets, unit_bytes: unit } = block;
  const highest = band.most.reduce((high, value) => Math.max(high, value), 0);
  const cells = new (highest < 2 ** 32 ? Uint32Array : Float64Array)(rows * buckets);
  let furthest = 0;
  for (let row = 0; row < rows; row++) {
    const [first, end] = [known.first[row], known.first[row] + known.count[row]];
    for (let b = first, i = row * buckets + first; b < end; b++, i++) {
      cells[i] = over[i] + band.median[b];
      if (over[i] > furthest) furthest = over[i];
      else if (-over[i] > furthest) furthest = -over[i];
    }
  }
  release(over);
  const isKnown = knownColumns(known, rows, buckets);
  const inBytes = (values) => Float64Array.from(values, (value, b) => (isKnown[b] ? value * unit : NaN));
  return { ...block, rows, cells, known, middle: band.median, least: inBytes(band.least), median: inBytes(band.median), most: inBytes(band.most),
    highest: Math.max(1, highest * unit), furthest: Math.max(1, furthest * unit) };
}

/* What a rank has in a bucket, in bytes; NaN: nothing is known. */
function cellAt({ cells, buckets, known, unit_bytes: unit }, row, b) {
  return row < 0 || b < known.first[row] || b >= known.first[row] + known.count[row] ? NaN : cells[row * buckets + b] * unit;
}

/* One memory, decoded when it is first looked at. */
function openMemory(place) {
  return once(job, 'memory ' + place, async () => {
    const memory = data.manifest.memories[place];
    const [rows, groups, shares] = await Promise.all([read(memory.rows), read(memory.groups), read(memory.shares)]);
    const grids = { time: await openGrid(memory.time, rows.rows), steps: null };
    const rowOf = new Map(Array.from(rows.rank, (at, row) => [job.ranks[at].rank, row]));
    const report = place ? job.reports.other_memories[place - 1] : job.reports.ranks;
    const figures = new Map(report.by_rank.map((row) => [row.rank, row]));
    return { place, name: memory.memory, rowOf, groups, shares, report, figures, grids, rows: rows.rows };
  });
}

const hasAxis = (x) => data.manifest.memories[job.memory.place][x] !== null;

/* Steps are decoded when they are first needed. */
async function openAxis(x) {
  const { memory } = job;
  memory.grids[x] ??= await once(memory, x, () => openGrid(data.manifest.memories[memory.place][x], memory.rows));
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
  if (hasAxis('steps')) await openAxis('steps');
  dropScratch();
}

const grid = () => job.memory.grids[view.x];

/* What a rank has in the buckets from one to another: the most, or what is furthest from the median. NaN: not known. */
function cellOf(row, first, last) {
  let found = NaN;
  for (let b = first; b <= last; b++) {
    const value = cellAt(grid(), row, b) - (view.mode === 'median' ? grid().median[b] : 0);
    if (!(Math.abs(value) <= Math.abs(found)) && !Number.isNaN(value)) found = value;
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

/* Failures in the memory that is shown. Those in none of the page's are in no picture. */
const failuresHere = () => job.failures.filter(({ memory }) => memory === job.memory.place);

/* When something happened on a rank, in the time of the job. */
const jobTime = (rank, ns) => ns + (job.byRank.get(rank)?.start_ns ?? 0);
