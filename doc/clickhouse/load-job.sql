-- Loads the file of a job: {job_file:String} is its path, {run:String} names this run. What was loaded
-- of this run before goes.
DELETE FROM tidemark.rank WHERE run = {run:String};
INSERT INTO tidemark.rank
SELECT {run:String}, rank, coalesce(job, ''), coalesce(hostname, ''), coalesce(pid, 0), start_unix_ns, first_ns, last_ns,
    complete, ended, lost_events, allocations, frees, failures, allocated_bytes, path, coalesce(command, '')
FROM sqlite({job_file:String}, 'rank');

DELETE FROM tidemark.rank_memory WHERE run = {run:String};
INSERT INTO tidemark.rank_memory
SELECT {run:String}, m.name, r.rank, r.device, r.peak_bytes, r.peak_ns, r.peak_step, r.live_end_bytes,
    r.reserved_peak_bytes, coalesce(r.reserved_is_exact, 0), r.limit_bytes, r.failures, r.bucket_shift, r.grown_bytes
FROM sqlite({job_file:String}, 'rank_memory') AS r
JOIN sqlite({job_file:String}, 'memory') AS m ON m.memory_id = r.memory_id;

DELETE FROM tidemark.usage_bucket WHERE run = {run:String};
INSERT INTO tidemark.usage_bucket
SELECT {run:String}, m.name, b.rank, b.bucket, r.bucket_shift, b.most_bytes, b.least_bytes, b.end_bytes,
    b.reserved_most_bytes, b.allocations, b.failures
FROM sqlite({job_file:String}, 'usage_bucket') AS b
JOIN sqlite({job_file:String}, 'rank_memory') AS r ON r.rank = b.rank AND r.memory_id = b.memory_id
JOIN sqlite({job_file:String}, 'memory') AS m ON m.memory_id = b.memory_id;

DELETE FROM tidemark.peak_group WHERE run = {run:String};
INSERT INTO tidemark.peak_group
SELECT {run:String}, m.name, p.rank, g.kind, g.name, p.bytes, p.count, p.peak_without_bytes
FROM sqlite({job_file:String}, 'peak_group') AS p
JOIN sqlite({job_file:String}, 'allocation_group') AS g ON g.group_id = p.group_id
JOIN sqlite({job_file:String}, 'memory') AS m ON m.memory_id = p.memory_id;

DELETE FROM tidemark.group_cut WHERE run = {run:String};
INSERT INTO tidemark.group_cut
SELECT {run:String}, m.name, c.rank, c.kind, c.peak_bytes, c.step_bytes
FROM sqlite({job_file:String}, 'group_cut') AS c
JOIN sqlite({job_file:String}, 'memory') AS m ON m.memory_id = c.memory_id;

DELETE FROM tidemark.step WHERE run = {run:String};
INSERT INTO tidemark.step
SELECT {run:String}, m.name, s.rank, s.step, s.begin_ns, s.end_ns, s.is_whole, s.peak_bytes, s.end_bytes, s.allocations
FROM sqlite({job_file:String}, 'step') AS s
JOIN sqlite({job_file:String}, 'memory') AS m ON m.memory_id = s.memory_id;

DELETE FROM tidemark.failure WHERE run = {run:String};
INSERT INTO tidemark.failure
SELECT {run:String}, coalesce(m.name, ''), f.rank, f.ns, rowNumberInAllBlocks(), f.size, f.status, f.cause,
    coalesce(f.layer, ''), f.live_bytes, coalesce(f.tag, ''), coalesce(f.text, '')
FROM sqlite({job_file:String}, 'failure') AS f
LEFT JOIN sqlite({job_file:String}, 'memory') AS m ON m.memory_id = f.memory_id;
