# What `tidemark merge`, `ranks` and `report` take for many ranks, and whether they find what was planted, to the byte:
# python3 bench/ranks.py TIDEMARK MAKE-TRACE RANKS ALLOCATIONS [FOLDER]
# Where CHDB names the folder with node_modules/chdb, the same is loaded into ClickHouse and asked there. With
# BENCH_SECONDS in the environment, no further traces are loaded once that many seconds have passed.
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time

STEPS = 100
SKEWED, LEAKING, FAILING = 3, 5, 7
TAGS = 8
PORTION, PORTION_ROWS = 64, 16_000_000  # traces that one process of ClickHouse loads, and their rows


def make(make_trace, path, allocations, plant):
    """A trace of 100 steps, in each of which blocks come, and go in the reverse order."""
    each = allocations // STEPS
    length = 1000 * each
    plants = {
        "skew": "UPDATE allocation SET size = size + size / 10 WHERE tag_id = 5 AND allocation_id > 11 * %d;" % each,
        "leak": "UPDATE allocation SET size = 512, free_ns = NULL, free_duration_ns = NULL, free_thread_id = NULL, free_stream_id ="
        " NULL WHERE allocation_id %% %d = 1;" % each,
        "failure": "INSERT INTO refused VALUES (%d, 1, 123456789, %d);" % (allocations + 1, (STEPS + 1) * length + 500),
        "none": "",
    }
    subprocess.run([make_trace, path, f"""
        INSERT INTO meta VALUES ('rank', 0), ('world_size', 1), ('job', 'bench'), ('trace_id', 1), ('ended', 'closed');
        INSERT INTO tag WITH RECURSIVE t(t) AS (SELECT 1 UNION ALL SELECT t + 1 FROM t WHERE t < {TAGS})
            SELECT t, NULL, 'tag ' || t FROM t;
        INSERT INTO mark WITH RECURSIVE s(s) AS (SELECT 1 UNION ALL SELECT s + 1 FROM s WHERE s < {STEPS + 1})
            SELECT s * {length}, 1, 'mark', 'step ' || s, NULL FROM s;
        INSERT INTO allocation(allocation_id, layer_id, address, size, alignment, status, alloc_ns, alloc_duration_ns,
            alloc_thread_id, alloc_stream_id, free_ns, free_duration_ns, free_thread_id, free_stream_id, tag_id)
        WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < {allocations} - 1)
            SELECT n + 1, 1, 4096 + 4194304 * (n % {each}), 512 * (1 + n * 7919 % 4096), 256, 0,
                (1 + n / {each}) * {length} + 400 * (n % {each}) + 100, 10, 1, 1,
                (2 + n / {each}) * {length} - 400 * (n % {each}) - 100, 10, 1, 1, 1 + n % {TAGS} FROM n;
        {plants[plant]}"""], check=True)


def planted(path, sql):
    with sqlite3.connect(path) as db:
        return db.execute(sql).fetchone()


def measure(arguments):
    """The status, the output, the seconds, the processor's seconds and the MiB of the largest process of those it starts."""
    begin = time.monotonic()
    child = subprocess.Popen(arguments, stdout=subprocess.PIPE)
    output = child.stdout.read()
    _, status, used = os.wait4(child.pid, 0)
    wall = time.monotonic() - begin
    child.stdout.close()
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, output, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def make_ranks(make_trace, folder, ranks, allocations):
    names = {SKEWED: "skew", LEAKING: "leak", FAILING: "failure"}
    bases = {}
    for plant in ("none", "skew", "leak", "failure"):
        bases[plant] = os.path.join(folder, plant + ".base")
        make(make_trace, bases[plant], allocations, plant)
    traces = os.path.join(folder, "traces")
    os.mkdir(traces)
    for rank in range(ranks):
        path = os.path.join(traces, "rank-%d.db" % rank)
        shutil.copyfile(bases[names.get(rank, "none")], path)
        db = sqlite3.connect(path)
        db.execute("PRAGMA synchronous = OFF")
        for key, value in (("rank", rank), ("world_size", ranks), ("trace_id", 1000 + rank)):
            db.execute("UPDATE meta SET value = ? WHERE key = ?", (value, key))
        db.commit()
        db.close()
    return bases, traces


def peak(path, each):
    """What is live in the middle of the step with the highest peak: in all, and of tag 5."""
    return planted(path, "SELECT sum(size), sum(size) FILTER (WHERE tag_id = 5) FROM allocation GROUP BY"
                   " (allocation_id - 1) / %d ORDER BY 1 DESC LIMIT 1" % each)


def judge(answer, bases, allocations):
    each = allocations // STEPS
    highest, median = peak(bases["skew"], each), peak(bases["none"], each)
    leaked = planted(bases["leak"], "SELECT sum(size) FROM allocation WHERE free_ns IS NULL AND allocation_id > %d" % each)[0]
    group = next(group for group in answer["groups"] if group["kind"] == "tag")
    growth = answer["growth"][0] if answer["growth"] else {}
    failed = answer["failed"][0] if answer["failed"] else {}
    found = [
        ("the rank with the highest peak", answer["highest_rank"], SKEWED),
        ("the tag", group["name"], "tag 5"),
        ("the step", group["from_step"], 12),
        ("the highest peak", answer["highest_bytes"], highest[0]),
        ("the median", answer["median_bytes"], median[0]),
        ("the excess", group["over_median_bytes"], highest[1] - median[1]),
        ("the rank that grows", growth.get("rank"), LEAKING),
        ("by how much", growth.get("grown_bytes"), leaked),
        ("the rank with the failure", failed.get("first_rank"), FAILING),
        ("its size", failed.get("size"), 123456789),
    ]
    for what, seen, wanted in found:
        if seen != wanted:
            print("NOT FOUND: %s: %s, and not %s" % (what, seen, wanted))
    return all(seen == wanted for _, seen, wanted in found)


def ask(store, arguments):
    """Run statements in ClickHouse: for each the seconds and the rows, and the figures of the process."""
    top = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    status, output, wall, cpu, memory = measure(["node", os.path.join(top, "tests", "clickhouse.js"), store, "@times"] + arguments)
    if status != 0:
        sys.exit("ClickHouse has failed, with status %d" % status)
    answers = []
    for line in output.decode().splitlines():
        if line.startswith("# "):
            answers.append((float(line.split()[1]), []))
        elif line and line != "--":
            answers[-1][1].append(json.loads(line))
    return answers, wall, cpu, memory


def judge_clickhouse(questions, answer):
    """Whether the questions of doc/clickhouse have the answers of `tidemark ranks`, which has found what was planted."""
    tags = [group for group in answer["groups"] if group["kind"] == "tag"]
    failed = answer["failed"][0]
    found = [
        ("the peaks", questions[0][0], [answer[name] for name in ("highest_rank", "highest_bytes", "median_bytes", "lowest_bytes")]),
        ("the tags", sorted(questions[1]), sorted([group["name"], group["bytes"] or 0] + [group[name] for name in (
            "most_bytes", "median_least_bytes", "median_most_bytes", "over_median_least_bytes", "over_median_most_bytes")]
            for group in tags)),
        ("the step", questions[2], [[SKEWED, tags[0]["from_step"]]]),
        ("growth", questions[3][0], [answer["growth"][0]["rank"], answer["growth"][0]["grown_bytes"]]),
        ("failures", questions[4][0][:5], [failed[name] for name in ("cause", "count", "ranks", "first_rank", "size")]),
    ]
    for what, seen, wanted in found:
        if seen != wanted:
            print("  NOT THE ANSWER OF RANKS: %s: %s, and not %s" % (what, seen, wanted))
    return all(seen == wanted for _, seen, wanted in found)


def ask_clickhouse(folder, traces, job, ranks, allocations, answer):
    """Load and ask by the files of doc/clickhouse. Each portion of traces goes once it is loaded."""
    sql = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "doc", "clickhouse")
    store, run = os.path.join(folder, "store"), ["run=bench", "memory=" + answer["memory"]]
    _, wall, cpu, memory = ask(store, [os.path.join(sql, "tables.sql"), "job_file=" + job] + run + [os.path.join(sql, "load-job.sql")])
    print("clickhouse: the job is loaded in %.1f s, %.1f s of processors, %.0f MiB" % (wall, cpu, memory))
    with open(os.path.join(sql, "questions.sql"), encoding="utf-8") as file:
        texts = [part + ";" for part in file.read().split(";\n") if part.strip()]
    for part, text in enumerate(texts):
        with open(os.path.join(folder, "question-%d.sql" % part), "w", encoding="utf-8") as file:
            file.write(text + "\n")
    rollups = [os.path.join(folder, "question-%d.sql" % part) for part in range(len(texts) - 1)]
    answers, _, _, _ = ask(store, run + 10 * rollups)
    turns = [answers[first:first + len(rollups)] for first in range(0, len(answers), len(rollups))]
    print("  its questions take at first %s ms, and at least %s ms"
          % tuple(", ".join("%.0f" % (1e3 * one[0]) for one in turn) for turn in (turns[0], [min(each) for each in zip(*turns)])))
    good = judge_clickhouse([one[1] for one in turns[-1]], answer)
    print("  the answers are those of ranks, to the byte" if good else "  the answers are others than those of ranks", flush=True)
    loaded = load_traces(store, run, traces, ranks, allocations)
    answers, _, _, memory = ask(store, [
        "SELECT rank, peak_bytes FROM tidemark.layer_peak FINAL ORDER BY rank",
        "SELECT rank, sum(size) FROM tidemark.allocation GROUP BY rank ORDER BY 2 DESC, rank LIMIT 1",
        "SELECT table, sum(rows), sum(bytes_on_disk) FROM system.parts WHERE active AND database = 'tidemark' GROUP BY table"
        " ORDER BY 3 DESC"])
    with sqlite3.connect(job) as db:
        peaks = [list(row) for row in db.execute("SELECT rank, peak_bytes FROM rank_memory WHERE rank < ? ORDER BY rank", (loaded,))]
    print("  the peaks of %d ranks, from all allocations, are %s" % (len(answers[0][1]), "those of the job, to the byte"
          if answers[0][1] == peaks else "others than those of the job"), flush=True)
    print("  asking the rollup of them takes %.0f ms, all allocations by rank %.2f s, %.0f MiB"
          % (1e3 * answers[0][0], answers[1][0], memory))
    for table, rows, size in answers[2][1]:
        print("  %s: %s rows, %.1f MiB" % (table, rows, int(size) / 2**20))
    _, wall, cpu, memory = ask(store, run + ["parquet=" + os.path.join(folder, "all.parquet"), os.path.join(sql, "parquet.sql")])
    print("  Parquet: %.1f MiB in %.1f s, %.1f s of processors, %.0f MiB"
          % (os.path.getsize(os.path.join(folder, "all.parquet")) / 2**20, wall, cpu, memory))
    return good and answers[0][1] == peaks


def load_traces(store, run, traces, ranks, allocations):
    """Load all allocations, by portions of ranks. Returns the number of ranks that are in."""
    load = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "doc", "clickhouse", "load-trace.sql")
    portion = max(1, min(PORTION, PORTION_ROWS // allocations))
    bound = float(os.environ.get("BENCH_SECONDS", "inf"))
    walls, cpus, most, loaded, parts = 0, 0, 0, 0, [0, 0, 0, 0]
    while loaded < ranks and walls < bound:
        paths = [os.path.join(traces, "rank-%d.db" % rank) for rank in range(loaded, min(ranks, loaded + portion))]
        arguments = list(run)
        for rank, path in enumerate(paths, loaded):
            arguments += ["rank=%d" % rank, "trace=" + path, load]
        answers, wall, cpu, memory = ask(store, arguments)
        walls, cpus, most, loaded = walls + wall, cpus + cpu, max(most, memory), loaded + len(paths)
        for place, (seconds, _) in enumerate(answers):
            parts[place % 4] += seconds
        for path in paths:
            os.unlink(path)
    print("  all allocations of %d ranks are loaded in %.0f s, %.0f s of processors, %.0f MiB; by statement %s s"
          % (loaded, walls, cpus, most, ", ".join("%.0f" % part for part in parts)), flush=True)
    return loaded


def show(tidemark, folder, job):
    """What the page of the job takes to make, and to open where there is a Chromium."""
    page = os.path.join(folder, "job.html")
    status, _, wall, cpu, memory = measure([tidemark, "report", "-o", page, job])
    print("report: status %d, %.1f s, %.1f s of a processor, %.0f MiB; page %.0f KiB"
          % (status, wall, cpu, memory, os.path.getsize(page) / 1024))
    driver = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "tests", "report-page.py")
    if subprocess.run([sys.executable, driver, "find"], stdout=subprocess.DEVNULL).returncode == 0:
        print("  opened: " + subprocess.run([sys.executable, driver, "measure", page], stdout=subprocess.PIPE, text=True).stdout.strip())


def main():
    tidemark, make_trace = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    ranks, allocations = int(sys.argv[3]), int(sys.argv[4])
    folder = tempfile.mkdtemp(prefix="bench-ranks-", dir=sys.argv[5] if len(sys.argv) > 5 else None)
    try:
        bases, traces = make_ranks(make_trace, folder, ranks, allocations)
        size = sum(os.path.getsize(os.path.join(traces, name)) for name in os.listdir(traces))
        print("%d ranks x %d allocations, traces of %.1f GiB" % (ranks, allocations, size / 2**30), flush=True)
        job = os.path.join(folder, "job.db")
        status, _, wall, cpu, memory = measure([tidemark, "merge", traces, "-o", job])
        print("merge: status %d, %.1f s, %.1f s of processors (%.2f us an allocation), %.0f MiB a process; file %.1f MiB"
              % (status, wall, cpu, 1e6 * cpu / ranks / allocations, memory, os.path.getsize(job) / 2**20), flush=True)
        least = None
        for _ in range(5):
            status, output, wall, cpu, memory = measure([tidemark, "ranks", "--json", job])
            least = (wall, cpu) if least is None or cpu < least[1] else least
        print("ranks: status %d, %.0f ms, %.0f ms of a processor" % (status, 1e3 * least[0], 1e3 * least[1]))
        _, _, wall, cpu, _ = measure([tidemark, "check", "--max-skew=100%", "--max-failures=1", "--max-peak=1TiB", job])
        print("check: %.0f ms, %.0f ms of a processor" % (1e3 * wall, 1e3 * cpu))
        good = judge(json.loads(output), bases, allocations)
        print("all that was planted is found, to the byte" if good else "not all that was planted is found")
        show(tidemark, folder, job)
        if "CHDB" in os.environ:
            sys.stdout.flush()
            good = ask_clickhouse(folder, traces, job, ranks, allocations, json.loads(output)) and good
        return 0 if good else 1
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
