-- Loads the allocations of a trace: {trace:String} is its path, {run:String} names the run, {rank:UInt32} its rank.
-- What was loaded of this rank before goes. Of nested logs the outermost has each request of the program once.
DELETE FROM tidemark.allocation WHERE run = {run:String} AND rank = {rank:UInt32}
SETTINGS lightweight_delete_mode = 'lightweight_update';
-- A trace has no row twice: optimize_on_insert would look for them.
INSERT INTO tidemark.allocation SETTINGS optimize_on_insert = 0
WITH RECURSIVE
edge AS
(
    SELECT toInt64(layer_id) AS layer_id, toInt64(upstream_layer_id) AS below
    FROM sqlite({trace:String}, 'layer') WHERE upstream_layer_id IS NOT NULL
    UNION ALL
    SELECT toInt64(layer_id), toInt64(upstream_layer_id) FROM sqlite({trace:String}, 'layer_bin')
),
covered AS
(
    SELECT e.below AS layer_id FROM edge AS e
    JOIN sqlite({trace:String}, 'layer') AS l ON l.layer_id = e.layer_id WHERE l.kind = 'log'
    UNION ALL
    SELECT e.below FROM covered AS c JOIN edge AS e ON e.layer_id = c.layer_id
),
path AS
(
    SELECT toInt64(tag_id) AS tag_id, name AS tag FROM sqlite({trace:String}, 'tag') WHERE parent_tag_id IS NULL
    UNION ALL
    SELECT toInt64(t.tag_id), concat(p.tag, '/', t.name)
    FROM path AS p JOIN sqlite({trace:String}, 'tag') AS t ON t.parent_tag_id = p.tag_id
)
SELECT {run:String}, {rank:UInt32}, a.allocation_id, a.layer_id, a.address, a.size, a.status, coalesce(p.tag, ''),
    a.callstack_id, a.alloc_ns, a.alloc_duration_ns, a.alloc_thread_id, a.alloc_stream_id, a.free_ns
FROM sqlite({trace:String}, 'allocation') AS a
LEFT JOIN path AS p ON p.tag_id = a.tag_id
WHERE a.layer_id NOT IN (SELECT layer_id FROM covered);

DELETE FROM tidemark.layer_peak WHERE run = {run:String} AND rank = {rank:UInt32}
SETTINGS lightweight_delete_mode = 'lightweight_update';
-- `moment` is the time of an event, twice, and one more for a free: of events at one time allocations come before frees.
-- Twice a time may take more than 64 bits. The peak was reached at the least moment of those with the most bytes. One
-- number says both: a tuple takes twice as long.
INSERT INTO tidemark.layer_peak
SELECT {run:String}, {rank:UInt32}, layer_id, max(live_bytes),
    argMax(bitShiftRight(moment, 1), bitShiftLeft(toInt128(live_bytes), 64) - moment), countIf(bitAnd(moment, 1) = 0),
    sum(change)
FROM
(
    SELECT layer_id, moment, change,
        sum(change) OVER (PARTITION BY layer_id ORDER BY moment ROWS UNBOUNDED PRECEDING) AS live_bytes
    FROM
    (
        SELECT layer_id, 2 * toInt128(alloc_ns) AS moment, toInt64(size) AS change FROM tidemark.allocation FINAL
        WHERE run = {run:String} AND rank = {rank:UInt32} AND status = 0
        UNION ALL
        SELECT layer_id, 2 * toInt128(assumeNotNull(free_ns)) + 1, -toInt64(size) FROM tidemark.allocation FINAL
        WHERE run = {run:String} AND rank = {rank:UInt32} AND status = 0 AND free_ns IS NOT NULL
    )
)
GROUP BY layer_id;
