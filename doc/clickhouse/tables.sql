-- The tables for jobs and their allocations. Run it once. See doc/clickhouse.md.
CREATE DATABASE IF NOT EXISTS tidemark;

-- A rank of a job, from the file that `tidemark merge` has made. `run` names one run of the job.
CREATE TABLE IF NOT EXISTS tidemark.rank
(
    run LowCardinality(String), rank UInt32, job String, hostname String, pid Int64, start_unix_ns Int64,
    first_ns Int64, last_ns Int64, complete UInt8, ended LowCardinality(String), lost_events UInt64,
    allocations UInt64, frees UInt64, failures UInt64, allocated_bytes UInt64, path String, command String
)
ENGINE = ReplacingMergeTree ORDER BY (run, rank);

-- What a rank has of a memory.
CREATE TABLE IF NOT EXISTS tidemark.rank_memory
(
    run LowCardinality(String), memory LowCardinality(String), rank UInt32, device Nullable(Int32), peak_bytes UInt64,
    peak_ns Int64, peak_step Int64, live_end_bytes UInt64, reserved_peak_bytes Nullable(UInt64),
    reserved_is_exact UInt8, limit_bytes Nullable(UInt64), failures UInt64, bucket_shift UInt8, grown_bytes Int64
)
ENGINE = ReplacingMergeTree ORDER BY (run, memory, rank);

-- What was live and reserved over time: a bucket b begins at b << bucket_shift ns since 1970.
CREATE TABLE IF NOT EXISTS tidemark.usage_bucket
(
    run LowCardinality(String), memory LowCardinality(String), rank UInt32, bucket UInt64 CODEC(DoubleDelta, ZSTD),
    bucket_shift UInt8, most_bytes UInt64 CODEC(T64, ZSTD), least_bytes UInt64 CODEC(T64, ZSTD),
    end_bytes UInt64 CODEC(T64, ZSTD), reserved_most_bytes Nullable(UInt64) CODEC(ZSTD),
    allocations UInt64 CODEC(T64, ZSTD), failures UInt64 CODEC(T64, ZSTD)
)
ENGINE = ReplacingMergeTree ORDER BY (run, memory, rank, bucket);

-- What groups of allocations had at the peak of a rank; `kind` is tag, function or class (of sizes).
CREATE TABLE IF NOT EXISTS tidemark.peak_group
(
    run LowCardinality(String), memory LowCardinality(String), rank UInt32, kind LowCardinality(String),
    name LowCardinality(String), bytes UInt64, count UInt64, peak_without_bytes UInt64
)
ENGINE = ReplacingMergeTree ORDER BY (run, memory, kind, rank, name);

-- Of which kinds a rank has groups that are not in the file. Of such a group it has from 0 to these bytes: at the peak,
-- where they are more than 0, and in any step.
CREATE TABLE IF NOT EXISTS tidemark.group_cut
(
    run LowCardinality(String), memory LowCardinality(String), rank UInt32, kind LowCardinality(String),
    peak_bytes UInt64, step_bytes UInt64
)
ENGINE = ReplacingMergeTree ORDER BY (run, memory, kind, rank);

CREATE TABLE IF NOT EXISTS tidemark.step
(
    run LowCardinality(String), memory LowCardinality(String), rank UInt32, step Int64 CODEC(DoubleDelta, ZSTD),
    begin_ns Int64 CODEC(DoubleDelta, ZSTD), end_ns Int64 CODEC(DoubleDelta, ZSTD), is_whole UInt8,
    peak_bytes UInt64 CODEC(T64, ZSTD), end_bytes UInt64 CODEC(T64, ZSTD), allocations UInt64 CODEC(T64, ZSTD)
)
ENGINE = ReplacingMergeTree ORDER BY (run, memory, rank, step);

-- The first 100 failures of a rank; `number` tells those of one time and size apart. How many it has is in `rank`.
CREATE TABLE IF NOT EXISTS tidemark.failure
(
    run LowCardinality(String), memory LowCardinality(String), rank UInt32, ns Int64, number UInt64, size UInt64,
    status LowCardinality(String), cause LowCardinality(String), layer String, live_bytes UInt64, tag LowCardinality(String), text String
)
ENGINE = ReplacingMergeTree ORDER BY (run, rank, ns, number);

-- All allocations of the outermost logs of a trace, for what the rollups do not answer.
CREATE TABLE IF NOT EXISTS tidemark.allocation
(
    run LowCardinality(String), rank UInt32, allocation_id Int64 CODEC(DoubleDelta, ZSTD), layer_id UInt16,
    address UInt64 CODEC(Delta, ZSTD), size UInt64 CODEC(T64, ZSTD), status Int32 CODEC(ZSTD),
    tag LowCardinality(String), callstack_id Nullable(Int64) CODEC(ZSTD), alloc_ns Int64 CODEC(DoubleDelta, ZSTD),
    alloc_duration_ns UInt64 CODEC(T64, ZSTD), alloc_thread_id UInt32 CODEC(ZSTD), alloc_stream_id UInt32 CODEC(ZSTD),
    free_ns Nullable(Int64) CODEC(Delta, ZSTD)
)
ENGINE = ReplacingMergeTree ORDER BY (run, rank, allocation_id)
SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1;

-- The rollup of these, which load-trace.sql keeps.
CREATE TABLE IF NOT EXISTS tidemark.layer_peak
(
    run LowCardinality(String), rank UInt32, layer_id UInt16, peak_bytes UInt64, peak_ns Int64, allocations UInt64,
    live_end_bytes UInt64
)
ENGINE = ReplacingMergeTree ORDER BY (run, rank, layer_id)
SETTINGS enable_block_number_column = 1, enable_block_offset_column = 1;

-- What was live in a layer after each event. Of events at one time allocations come before frees.
CREATE VIEW IF NOT EXISTS tidemark.live AS
SELECT run, rank, layer_id, allocation_id, event.1 AS ns,
    sum(event.3) OVER (PARTITION BY run, rank, layer_id ORDER BY event.1, event.2, allocation_id
        ROWS UNBOUNDED PRECEDING) AS live_bytes
FROM
(
    SELECT run, rank, layer_id, allocation_id, arrayJoin(if(free_ns IS NULL, [(alloc_ns, 0, toInt64(size))],
        [(alloc_ns, 0, toInt64(size)), (assumeNotNull(free_ns), 1, -toInt64(size))])) AS event
    FROM tidemark.allocation FINAL WHERE status = 0
);
