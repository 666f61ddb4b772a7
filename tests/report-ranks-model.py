"""Compares the heat map of tidemark report with brute force over the traces of a job.

usage: report-ranks-model.py random TIDEMARK MAKE-TRACE FOLDER SEED   makes random traces, merges and compares them
       report-ranks-model.py compare REPORT TRACE...                  the data of a page, and the traces of its ranks

Says what differs, and then exits with status 1.
"""

import json
import os
import random
import re
import sqlite3
import subprocess
import sys


def events_of(db):
    """What was live after each event, in order: (ns, bytes); at equal times allocations come first."""
    changes = []
    for ns, free, size in db.execute("SELECT alloc_ns, free_ns, size FROM allocation WHERE status = 0"):
        changes.append((ns, 0, size))
        if free is not None:
            changes.append((free, 1, -size))
    live, after = 0, []
    for ns, _, size in sorted(changes):
        live += size
        after.append((ns, live))
    return after


def most_in(after, begin, end):
    """The most that was live from begin on, before end; what it began with counts."""
    most = 0
    for ns, live in after:
        if ns < begin:
            most = live
        elif ns < end:
            most = max(most, live)
        else:
            break
    return most


def steps_of(db, after):
    """The most that was live in each step, by its number; the one before the first mark is -1."""
    marks = [(ns, int(match[1])) for ns, text in db.execute("SELECT ns, text FROM mark ORDER BY ns")
             if (match := re.fullmatch(r"step (\d+)", text or ""))]
    if len(marks) < 2:  # which are no steps
        return {-1: most_in(after, -1 << 62, 1 << 62)}
    edges = [(-1 << 62, -1)] + marks + [(1 << 62, None)]
    return {number: most_in(after, begin, edges[i + 1][0]) for i, (begin, number) in enumerate(edges[:-1])}


def cells_of(axis, rows):
    """The cells in bytes, None where nothing is known; row by row."""
    buckets, unit = axis["buckets"], axis["unit_bytes"]
    over, median = axis["cells"]["values"]["over"], axis["band"]["values"]["median"]
    known = axis["known"]["values"]
    table = [[(over[row * buckets + column] + median[column]) * unit
              if known["first"][row] <= column < known["first"][row] + known["count"][row] else None
              for column in range(buckets)] for row in range(rows)]
    for column in range(buckets):
        values = sorted(row[column] for row in table if row[column] is not None)
        if not values:
            continue
        band = [axis["band"]["values"][name][column] * unit for name in ("least", "median", "most")]
        wanted = [values[0], values[(len(values) - 1) // 2], values[-1]]
        if band != wanted:
            raise SystemExit(f"column {column}: the band is {band}, and not {wanted}")
    return table


def compare(report, traces):
    by_rank = {}
    for path in traces:
        db = sqlite3.connect(path)
        by_rank[int(db.execute("SELECT value FROM meta WHERE key = 'rank'").fetchone()[0])] = db
    memory = report["memories"][0]
    compared = 0
    for name in ("time", "steps"):
        axis = memory[name]
        if axis is None:
            continue
        unit, width = axis["unit_bytes"], axis["width"]
        for place, row in zip(memory["rows"]["values"]["rank"], cells_of(axis, memory["rows"]["rows"])):
            rank = report["ranks"][place]
            db = by_rank[rank["rank"]]
            after = events_of(db)
            steps = steps_of(db, after)
            for column, seen in enumerate(row):
                begin = axis["begin"] + column * width
                if name == "time":
                    start = rank["start_ns"]
                    lies = begin + width > start + rank["first_ns"] and begin <= start + rank["last_ns"]
                    wanted = most_in(after, begin - rank["start_ns"], begin - rank["start_ns"] + width)
                else:
                    # what was before the first step stands from the begin on up to it
                    first = min((number for number in steps if number >= 0), default=None)
                    values = [most for number, most in steps.items() if number >= 0 and begin <= number < begin + width]
                    if begin < (first if first is not None else memory["first_step"]):
                        values.append(steps[-1])
                    lies, wanted = bool(values), max(values, default=0)
                wanted = -(-wanted // unit) * unit if lies else None
                compared += 1
                if seen != wanted:
                    raise SystemExit(f"rank {rank['rank']}, {name}, column {column}: {seen}, and not {wanted}")
    return compared


def make(make_trace, path, rank, seed):
    """A rank with random allocations over a random time, and marks of steps on most ranks."""
    chance = random.Random(seed)
    length = 10 ** chance.randint(4, 11)
    count = chance.randint(0, 400)
    lives = []
    for number in range(1, count + 1):
        begin = chance.randrange(length) | 1
        end = "NULL" if chance.random() < .1 else str(begin + 2 * chance.randrange(1 + length // 10))
        size = chance.choice((1, 256, 512)) * chance.randint(0, 1 << chance.randint(1, 20))
        lives.append(f"({number}, 1, {size}, {begin}, {end})")
    steps = sorted({2 * chance.randrange(length) for _ in range(chance.choice((0, 1, 30, 1500)))})
    start = chance.choice((0, 1, 5, 700))
    sql = f"""
        INSERT INTO meta VALUES ('rank', {rank}), ('world_size', 8), ('job', 'random'), ('trace_id', {1000 + rank}),
            ('ended', 'closed');
        UPDATE meta SET value = {0 if chance.random() < .15 else 1700000000000000000 + chance.randrange(length)} WHERE key = 'start_unix_ns';
        INSERT INTO refused VALUES ({count + 1}, 1, 100, {length // 2});"""
    if lives:
        sql += f"INSERT INTO life VALUES {', '.join(lives)};"
    marks = [f"({ns}, 1, 'mark', 'step {number}', NULL)" for number, ns in enumerate(steps, start)]
    if marks:
        sql += f"INSERT INTO mark VALUES {', '.join(marks)};"
    subprocess.run([make_trace, path, sql], check=True)


def main():
    if sys.argv[1:2] == ["compare"]:
        with open(sys.argv[2], encoding="utf-8") as file:
            report = json.load(file)
        print(f"# {compare(report, sys.argv[3:])} cells are compared")
        return
    tidemark, make_trace, folder, seed = sys.argv[2:6]
    traces = [os.path.join(folder, f"rank-{rank}.db") for rank in range(8)]
    for rank, path in enumerate(traces):
        make(make_trace, path, rank, f"{seed} {rank}")
    job = os.path.join(folder, "job.db")
    subprocess.run([tidemark, "merge", "-o", job, *traces], check=True)
    report = json.loads(subprocess.run([tidemark, "report", "--json", job], check=True, stdout=subprocess.PIPE).stdout)
    print(f"# {compare(report, traces)} cells are compared")


if __name__ == "__main__":
    main()
