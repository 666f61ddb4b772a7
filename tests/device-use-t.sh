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

plan 25

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

# An unmodified program: a stack for each kind of memory, and what is left unaccounted.
account() {
    ask summary "$@" | tr -s ' ' | grep '^tracked\|^device used\|^unaccounted\|^as of\|^not tracked\|^host'
}
process="(1, 2, 'log', '', 0), (2, NULL, 'process', 'kind=plain, device=0', 0), (3, 4, 'log', '', 0),
    (4, NULL, 'process', 'kind=async, device=0', 0), (5, 6, 'log', '', NULL), (6, NULL, 'process', 'kind=pinned, device=0', NULL),
    (7, 8, 'log', '', 0), (8, NULL, 'process', 'kind=managed, device=0', 0), (9, 10, 'log', '', 0),
    (10, NULL, 'process', 'kind=graph, device=0', 0)"
held="INSERT INTO life VALUES (1, 1, 1000, 20, NULL), (2, 3, 2000, 25, NULL), (3, 5, 100, 26, NULL), (4, 7, 50, 27, NULL);
    INSERT INTO pool_sample VALUES (21, 2, 1000, 1000, 1000), (26, 4, 2000, 4000, 4000), (27, 6, 100, 100, 100),
        (28, 8, 50, 50, 50), (29, 10, 0, 300, 300);
    INSERT INTO layer_count VALUES (10, 'found_bytes', 700), (2, 'found_bytes', 0);
    INSERT INTO device_sample VALUES (20, 0, 99300, 100000), (30, 0, 93000, 100000);"
make_stack "$process" "$held"
is "$(account)" "tracked GPU 0: 5.18 KiB: 1000 B plain, 3.91 KiB async, 300 B graph
device used GPU 0: 6.84 KiB of 97.66 KiB
unaccounted GPU 0: 1.66 KiB: 700 B in use before the first allocation (contexts, other processes), 1000 B since (modules, other libraries)
as of GPU 0: 30 ns, the end
not tracked GPU 0: 50 B managed
host 100 B pinned" \
    'the summary of an unmodified program ends with what was tracked, what is in use, and what that leaves unaccounted'
has_words "$(ask summary --json)" \
    '"account":[{"device":0,"tracked_bytes":5300,"used_bytes":7000,"unaccounted_bytes":1700,"before_bytes":700,"ns":30}]' \
    'the table for programs has the account'
is "$(account --to=24ns)" "tracked GPU 0: 0 B
device used GPU 0: 700 B of 97.66 KiB
unaccounted GPU 0: 700 B: 700 B in use before the first allocation (contexts, other processes), 0 B since (modules, other libraries)
as of GPU 0: 20 ns, 4 ns before the end" \
    'the account of an earlier moment is by the samples until then'
is "$(account --min-size=10)" '' 'with a filter that takes a part of the allocations there is no account'
is "$(ask summary | tr -s ' ' | grep '^peak' | head -1)" 'peak plain of GPU 0: 1000 B requested at 20 ns, in 1 allocation' \
    'the figures of a stack begin with its kind of memory'
is "$(ask peak --by=kind | tr -s ' ' | sed -n 's/ of GPU 0 .*//p; s/^pinned .*/pinned/p' | grep -v ^Without | tr '\n' ' ')" 'async plain pinned managed ' \
    'the peak is told by kind of memory'
make_stack "$process" "$held DELETE FROM device_sample WHERE ns = 30; INSERT INTO device_sample VALUES
    (26, 0, 94500, 100000), (29, 0, -1, 100000);"
is "$(account)" "tracked GPU 0: 4.88 KiB: 1000 B plain, 3.91 KiB async
device used GPU 0: 5.37 KiB of 97.66 KiB
unaccounted GPU 0: 500 B: 500 B in use before the first allocation (contexts, other processes), 0 B since (modules, other libraries)
as of GPU 0: 26 ns, 1 ns before the end
host 100 B pinned" \
    'where the driver said before the end what is in use, what was tracked at that moment is beside it'
make_stack "$process" "$held UPDATE device_sample SET free_bytes = 96000 WHERE ns = 30;"
is "$(account | sed -n 3p)" 'unaccounted GPU 0: none: 1.27 KiB is tracked beyond what is in use' \
    'where more is tracked than in use the summary says so'
has_words "$(ask summary --json)" '"tracked_bytes":5300,"used_bytes":4000,"unaccounted_bytes":-1300,"before_bytes":0' \
    'the table has a negative rest then: tracked and unaccounted are what is used'
make_stack "$process, (11, 12, 'log', '', 1), (12, NULL, 'process', 'kind=plain, device=1', 1)" "$held
    INSERT INTO pool_sample VALUES (22, 12, 7000, 7000, 7000), (28, 12, 9000, 9000, 9000);
    INSERT INTO device_sample VALUES (23, 1, 10000, 20000);"
is "$(ask summary --json | sed 's/.*"account":\[\([^]]*\)\].*/\1/; s/[{}"]//g' | grep -o 'device:1.*')" \
    'device:1,tracked_bytes:7000,used_bytes:10000,unaccounted_bytes:3000,before_bytes:null,ns:23' \
    'each device has an account of a moment of its own'
make_stack "$process" "$held DROP TABLE device_sample;"
is "$(account | sed -n 3p)" 'not tracked GPU 0: 50 B managed' 'without samples of the device only what is tracked is said'
done_testing
