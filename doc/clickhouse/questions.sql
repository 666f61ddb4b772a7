-- Questions over a run, {run:String}, of a memory, {memory:String}. The answers are those of `tidemark ranks`.

-- Which rank has the highest peak, and the median and the lowest?
SELECT argMax(rank, (peak_bytes, -toInt64(rank))) AS highest_rank, max(peak_bytes) AS highest_bytes,
    arraySort(groupArray(peak_bytes))[intDiv(count() + 1, 2)] AS median_bytes, min(peak_bytes) AS lowest_bytes
FROM tidemark.rank_memory FINAL WHERE run = {run:String} AND memory = {memory:String};

-- In which tags does that rank have more than the median of the ranks, at their peaks? A rank has its 4,096 largest
-- tags alone here: another counts as 0, so that a median among many small tags may be too low.
WITH
(
    SELECT argMax(rank, (peak_bytes, -toInt64(rank))) FROM tidemark.rank_memory FINAL
    WHERE run = {run:String} AND memory = {memory:String}
) AS highest,
(
    SELECT count() FROM tidemark.rank_memory FINAL WHERE run = {run:String} AND memory = {memory:String}
) AS all_ranks, assumeNotNull(all_ranks) AS ranks
SELECT name, sumIf(bytes, rank = highest) AS own_bytes,
    arraySort(arrayConcat(groupArray(bytes), arrayWithConstant(ranks - count(), toUInt64(0))))[intDiv(ranks + 1, 2)]
        AS median_bytes,
    toInt64(own_bytes) - toInt64(median_bytes) AS over_median_bytes
FROM tidemark.peak_group FINAL WHERE run = {run:String} AND memory = {memory:String} AND kind = 'tag'
GROUP BY name ORDER BY over_median_bytes DESC, name LIMIT 20;

-- From which step on is each rank more than 1% over the median peak of the step, up to its last one?
SELECT rank, min(step) AS from_step FROM
(
    SELECT rank, step, peak_bytes > 1.01 * middle AS is_over,
        min(is_over) OVER (PARTITION BY rank ORDER BY step DESC ROWS UNBOUNDED PRECEDING) AS stays
    FROM tidemark.step AS s FINAL JOIN
    (
        SELECT step, arraySort(groupArray(peak_bytes))[intDiv(count() + 1, 2)] AS middle
        FROM tidemark.step FINAL WHERE run = {run:String} AND memory = {memory:String} GROUP BY step
    ) AS m ON m.step = s.step
    WHERE run = {run:String} AND memory = {memory:String} AND is_whole
) WHERE stays GROUP BY rank ORDER BY rank;

-- Which ranks have grown most, from the end of their first whole step to that of their last?
SELECT rank, grown_bytes FROM tidemark.rank_memory FINAL WHERE run = {run:String} AND memory = {memory:String}
ORDER BY grown_bytes DESC, rank LIMIT 5;

-- What failed, and why, among the first 100 failures of each rank; and how many has the memory in all?
SELECT cause, count() AS failures, uniqExact(rank) AS ranks, argMin(rank, ns) AS first_rank, argMin(size, ns) AS size,
    (
        SELECT sum(failures) FROM tidemark.rank_memory FINAL WHERE run = {run:String} AND memory = {memory:String}
    ) AS all_failures
FROM tidemark.failure FINAL WHERE run = {run:String} AND memory = {memory:String} GROUP BY cause ORDER BY failures DESC, cause;

-- The highest of all ranks in each 2^30 ns, and which rank it was: the line of a dashboard.
SELECT bitShiftRight(bucket, 30 - bucket_shift) AS second, max(most_bytes) AS highest_bytes,
    argMax(rank, most_bytes) AS highest_rank
FROM tidemark.usage_bucket FINAL WHERE run = {run:String} AND memory = {memory:String} AND bucket_shift <= 30
    AND rank IN (SELECT rank FROM tidemark.rank FINAL WHERE run = {run:String} AND start_unix_ns > 0)
GROUP BY second ORDER BY second LIMIT 3600;

-- Over all runs: how the highest peak of a job has changed.
SELECT run, max(peak_bytes) AS highest_bytes FROM tidemark.rank_memory FINAL WHERE memory = {memory:String}
GROUP BY run ORDER BY run;

-- The exact peak of each rank in each of its outermost logs, from all allocations (load-trace.sql).
SELECT rank, layer_id, max(live_bytes) AS peak_bytes FROM tidemark.live WHERE run = {run:String}
GROUP BY rank, layer_id ORDER BY rank, layer_id;
