#!/bin/sh
# Tests what summary and fragmentation say of the device: what was in use, and how much of it through no stack.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db

# make_stack LAYERS SQL: a trace with these layers.
make_stack() {
    "$top_builddir/tests/make-trace" "$trace" "DELETE FROM layer;
        INSERT INTO layer(layer_id, upstream_layer_id, kind, config, device) VALUES $1; $2" || exit 99
}

ask() {
    "$tidemark" "$@" "$trace" 2>"$scratch/err"
}

# lines COMMAND...: the lines of what it says about the device, single spaces.
lines() {
    ask "$@" | tr -s ' ' | grep '^device in use\|^not this stack\|^in use'
}

# table COMMAND...: the rows of device_use as text, without braces.
table() {
    ask "$@" --json | sed 's/.*"device_use":\[\([^]]*\)\].*/\1/; s/[{}"]//g'
}

plan 14

# The base holds 4096 at first, then 8192, then 4096 again; the device has 1000 and later 3000 more in use.
one="(1, 2, 'log', '', 0), (2, 3, 'pool', '', 0), (3, NULL, 'driver', '', 0)"
lives="INSERT INTO life VALUES (1, 1, 3000, 20, 70), (2, 1, 2000, 25, NULL);
    INSERT INTO pool_sample VALUES (10, 3, 4096, 4096, 4096), (20, 3, 8192, 8192, 8192), (50, 3, 4096, 4096, 8192);"
device="INSERT INTO device_sample VALUES (10, 0, 994904, 1000000), (20, 0, 990808, 1000000), (50, 0, 992904, 1000000);"
make_stack "$one" "$lives $device"
is "$(lines summary)" "device in use 8.98 KiB of 976.6 KiB at 20 ns
not this stack 1000 B of that was not through this stack: contexts, kernels, other libraries and processes" \
    'summary has the most that the device had in use, and what of it was through no stack'
is "$(table summary)" 'device:0,total_bytes:1000000,in_use_bytes:7096,in_use_peak_bytes:9192,in_use_peak_ns:20,bases_bytes:8192,beside_bytes:1000,beside_peak_bytes:3000' \
    'the table for programs has the figures at the peak, at the end, and the most beside the bases'
is "$(table fragmentation)" "$(table summary)" 'fragmentation has the same table'
is "$(lines fragmentation | sed -n 3p)" 'in use 8.98 KiB +1000 B not through this stack: contexts, kernels, other libraries and processes' \
    'the steps from the request to the device end with what is in use'
is "$(lines fragmentation --at=60ns | sed -n 3p)" 'in use 6.93 KiB +1.93 KiB not through this stack: contexts, kernels, other libraries and processes' \
    'so they do at another moment, by the sample before it'
has_words "$(ask fragmentation --json)" '"in_use_bytes":7096' 'each moment has what was in use'
is "$(table summary --from=30ns)" 'device:0,total_bytes:1000000,in_use_bytes:7096,in_use_peak_bytes:9192,in_use_peak_ns:30,bases_bytes:8192,beside_bytes:1000,beside_peak_bytes:3000' \
    'a time range begins with what stood then'
is "$(table summary --to=30ns)" 'device:0,total_bytes:1000000,in_use_bytes:9192,in_use_peak_bytes:9192,in_use_peak_ns:20,bases_bytes:8192,beside_bytes:1000,beside_peak_bytes:1000' \
    'what comes after a time range does not count'
is "$(table summary --min-size=10)" '' 'with a filter that takes a part of the allocations nothing is said of the device'
has_words "$(ask export --format=chrome)" '"name":"GPU 0 in use","args":{"in_use_bytes":9192}' \
    'the export for Perfetto has a counter of each device'

# Two devices, and a base that is on none.
make_stack "$one, (4, 5, 'log', '', 1), (5, NULL, 'driver', '', 1), (6, NULL, 'pinned', '', NULL)" "$lives $device
    INSERT INTO pool_sample VALUES (12, 5, 100, 500, 500), (12, 6, 100, 900, 900);
    INSERT INTO device_sample VALUES (15, 1, 7000, 8000);"
is "$(lines summary)" "device in use GPU 0: 8.98 KiB of 976.6 KiB at 20 ns
not this stack GPU 0: 1000 B of that was not through this stack: contexts, kernels, other libraries and processes
device in use GPU 1: 1000 B of 7.81 KiB at 15 ns
not this stack GPU 1: 500 B of that was not through this stack: contexts, kernels, other libraries and processes" \
    'of two devices each has its lines, beside what its own bases hold'

# Figures that cannot be, and a trace of a recorder that did not ask.
make_stack "$one" "$lives INSERT INTO device_sample VALUES (10, 0, -5, 1000), (20, 0, 2000, 1000), (30, 0, 400, 1000);"
is "$(table summary)" 'device:0,total_bytes:1000,in_use_bytes:600,in_use_peak_bytes:600,in_use_peak_ns:30,bases_bytes:8192,beside_bytes:0,beside_peak_bytes:0' \
    'samples that cannot be are left out, and nothing is beside bases that hold more than is in use'
make_stack "$one" "$lives DROP TABLE device_sample;"
is "$(lines summary)$(table summary)" '' 'a trace without the table has no figures of devices'
is "$(lines fragmentation)" '' 'nor a step for them'
done_testing
