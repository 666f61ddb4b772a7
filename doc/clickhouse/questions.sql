-- Questions over a run, {run:String}, of a memory, {memory:String}. The answers are those of `tidemark ranks`.

-- Which rank has the highest peak, and the median and the lowest?
SELECT argMax(rank, (peak_bytes, -toInt64(rank))) AS highest_rank, max(peak_bytes) AS highest_bytes,
    arraySort(groupArray(peak_bytes))[intDiv(count() + 1, 2)] AS median_bytes, min(peak_bytes) AS lowest_bytes
FROM tidemark.rank_memory FINAL WHERE run = {run:String} AND memory = {memory:String};

-- In which tags does that rank have more than the median of the ranks, at their peaks? A rank lists its 4,096 largest
-- tags alone. Of another it has between 0 and the bytes of the largest that it does not list (group_cut): so figures have
-- two ends, as those of `tidemark ranks`. Where both are the same, it is that. What is more for certain comes first.
WITH
(
    SELECT argMax(rank, (peak_bytes, -toInt64(rank))) FROM tidemark.rank_memory FINAL
    WHERE run = {run:String} AND memory = {memory:String}
) AS highest,
(
    SELECT toInt64(count()) FROM tidemark.rank_memory FINAL WHERE run = {run:String} AND memory = {memory:String}
) AS all_ranks, assumeNotNull(all_ranks) AS ranks, intDiv(ranks + 1, 2) AS middle,
cut AS
(
    SELECT rank, peak_bytes FROM tidemark.group_cut FINAL
    WHERE run = {run:String} AND memory = {memory:String} AND kind = 'tag' AND peak_bytes > 0
),
(SELECT groupArray(peak_bytes) FROM cut) AS bounds, (SELECT sum(peak_bytes) FROM cut WHERE rank = highest) AS own_bound,
tag AS
(
    SELECT name, sumIf(bytes, p.rank = highest) AS own_bytes, arraySort(groupArray(bytes)) AS listed,
        middle - ranks + toInt64(length(listed)) AS place, if(place > 0, listed[place], 0) AS median_bytes,
        groupArrayIf(c.peak_bytes, c.peak_bytes > 0) AS listed_bounds
    FROM tidemark.peak_group AS p FINAL LEFT JOIN cut AS c ON c.rank = p.rank
    WHERE run = {run:String} AND memory = {memory:String} AND kind = 'tag'
    GROUP BY name HAVING own_bytes > 0 OR median_bytes > 0
),
-- The most that a median can be: that of what ranks list of the tag, and of the bounds of the others, which are those of
-- all less those of the ranks that list it. A tuple is bytes, and how often they count.
most AS
(
    SELECT *, arraySort(arrayConcat(
            [(toUInt64(0), ranks - toInt64(length(listed) + length(bounds)) + toInt64(length(listed_bounds)))],
            arrayMap(b -> (b, toInt64(1)), listed), arrayMap(b -> (b, toInt64(1)), bounds),
            arrayMap(b -> (b, toInt64(-1)), listed_bounds))) AS counted,
        counted[arrayFirstIndex(c -> c >= middle, arrayCumSum(c -> c.2, counted))].1 AS median_most_bytes
    FROM tag
)
SELECT name, own_bytes AS own_least_bytes, if(own_bytes > 0, own_bytes, assumeNotNull(own_bound)) AS own_most_bytes,
    median_bytes AS median_least_bytes, median_most_bytes,
    toInt64(own_least_bytes) - toInt64(median_most_bytes) AS over_median_least_bytes,
    toInt64(own_most_bytes) - toInt64(median_least_bytes) AS over_median_most_bytes
FROM most ORDER BY over_median_least_bytes DESC, name LIMIT 20;

-- From which step on is each rank more than 1% over the median peak of the step, up to its last one? A rank that does not
-- mark a step, but has steps before and after it, counts with the step in which it is, as in step_median.
SELECT rank, min(step) AS from_step FROM
(
    SELECT rank, step, peak_bytes > 1.01 * middle AS is_over,
        min(is_over) OVER (PARTITION BY rank ORDER BY step DESC ROWS UNBOUNDED PRECEDING) AS stays
    FROM tidemark.step AS s FINAL JOIN
    (
        SELECT at.step AS step, arraySort(groupArray(own.peak_bytes))[intDiv(count() + 1, 2)] AS middle FROM
        (
            SELECT step, rank FROM
            (
                SELECT DISTINCT step FROM tidemark.step FINAL WHERE run = {run:String} AND memory = {memory:String}
            ) AS any_rank CROSS JOIN
            (
                SELECT rank, min(step) AS first_step, max(step) AS last_step
                FROM tidemark.step FINAL WHERE run = {run:String} AND memory = {memory:String} GROUP BY rank
            ) AS ranks WHERE step BETWEEN first_step AND last_step
        ) AS at ASOF JOIN
        (
            SELECT rank, step, peak_bytes FROM tidemark.step FINAL WHERE run = {run:String} AND memory = {memory:String}
        ) AS own ON own.rank = at.rank AND own.step <= at.step GROUP BY at.step
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
