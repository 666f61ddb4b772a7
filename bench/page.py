"""What pages of tidemark report cost to make, to open and to move in, in headless Chromium.

usage: page.py TIDEMARK INPUT...   INPUT: a trace, or recorded traffic (.csv.gz), which is replayed through a pool first

Each page is opened in a browser of its own, three times; the least of each time is printed, and the most of each memory.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

DRIVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "report-page.py")
COLUMNS = [("page_bytes", "page KiB", 1024), ("first_picture_ms", "first picture ms", 1), ("all_ms", "all ms", 1),
           ("open_mib", "opened MiB", 1), ("moved_mib", "moved MiB", 1), ("draw_median_ms", "draw ms", 1),
           ("draw_worst_ms", "worst", 1), ("processor_ms", "processors ms", 1), ("frame_median_ms", "frame ms", 1), ("frame_p95_ms", "p95", 1),
           ("live_set_p95_ms", "live set p95 ms", 1), ("anchors", "instants", 1), ("lives", "allocations in it", 1)]


def measured(page):
    runs = [json.loads(subprocess.run([sys.executable, DRIVER, "measure", page], check=True, capture_output=True).stdout)
            for _ in range(3)]
    return {key: (max if key.endswith("mib") else min)(run[key] for run in runs) for key in runs[0]}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    tidemark = sys.argv[1]
    if subprocess.run([sys.executable, DRIVER, "find"], capture_output=True, check=False).returncode:
        print("bench-page: skipped: there is no Chromium")
        return
    print(" | ".join(["trace", "making s"] + [title for _, title, _ in COLUMNS]))
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:]:
            trace, page = name, os.path.join(folder, "page.html")
            if name.endswith(".csv.gz"):
                trace = os.path.join(folder, os.path.basename(name)[:-7] + ".db")
                stack = f"log({trace}) | limit(16GiB) | pool | log | sim(capacity=80GiB)"
                subprocess.run([tidemark, "replay", "--stack", stack, name], check=True, stdout=subprocess.DEVNULL)
            began = time.monotonic()
            subprocess.run([tidemark, "report", trace, "-o", page], check=True)
            took = time.monotonic() - began
            figures = measured(page)
            words = [f"{round(figures[key] / unit, 1):g}" if figures[key] < 100000 else f"{figures[key] // unit:d}" for key, _, unit in COLUMNS]
            print(" | ".join([os.path.basename(trace)[:-3], f"{took:.2f}"] + words), flush=True)


if __name__ == "__main__":
    main()
