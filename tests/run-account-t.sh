#!/bin/sh
# Tests `tidemark run` with the account of the library, on the fake driver: what is in the traces, under which names, and
# what a limit does.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
top_srcdir=$(cd "$top_srcdir" && pwd)
top_builddir=$(cd "$top_builddir" && pwd)
fake=$top_builddir/tests/fake-cuda/.libs
reach=$top_builddir/tests/run/reach
test -x "$reach" && test -e "$top_builddir/.libs/libtidemark-run.so" ||
    skip_all 'this build has no objects for tidemark run, or no fake driver'
unset TIDEMARK_STACK TIDEMARK_LIBRARY LD_AUDIT LD_PRELOAD NVTX_INJECTION64_PATH
LD_LIBRARY_PATH=$fake:$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
export LD_LIBRARY_PATH
tidemark=$top_builddir/.libs/tidemark
test -x "$tidemark" || tidemark=$top_builddir/tidemark
usual='0 1 0 1 0 0 1073741824'

# run OPTION... -- PROGRAM...: in an empty folder; output to $said, status to $status, the files there to $files.
run() {
    rm -rf "$scratch/here"
    mkdir "$scratch/here"
    said=$(cd "$scratch/here" && timeout 60 "$tidemark" run "$@" 2>&1)
    status=$?
    files=$(cd "$scratch/here" && ls | tr '\n' ' ')
}

# rows TRACE: allocations, those that failed, bytes that were allocated, and what is live.
rows() {
    "$tidemark" query --csv "$1" \
        'SELECT count(*), sum(status <> 0), sum(iif(status = 0, size, 0)), sum(status = 0 AND free_ns IS NULL) FROM allocation' |
        tail -n 1
}

plan 58

for way in audit preload; do
    run --interpose=$way -o t.db -- "$reach" handle
    is "$status $said $files" "0 handle: $usual t.db " "a program is recorded, and nothing else is left ($way)"
    is "$(rows "$scratch/here/t.db")" '1,0,1048576,0' "the trace has the allocation, and its end ($way)"
    run --interpose=$way -o t.db --limit 512KiB -- "$reach" handle
    is "$said" 'handle: 2 1 0 0 0 0 524288' "a limit refuses as the driver does, and the device has its size ($way)"
done
run -- "$reach" handle
is "$(echo "$files" | sed 's/[0-9][0-9]*/N/')" 'tidemark-N.db ' 'without -o the trace has the process id'
run -- sh -c "'$reach' handle; '$reach' handle"
is "$(echo "$files" | sed 's/[0-9][0-9]*/N/g')" 'tidemark-N.db tidemark-N.db ' 'each child that allocates has a trace'
run -o t.db -- sh -c "'$reach' handle; '$reach' handle"
is "$files" 't-2.db t.db ' 'a second process adds a number to the name of the trace'
run -o 't%%-%h-%r.db' -- "$reach" handle
is "$files" "t%-$(uname -n)-0.db " 'host, rank and the percent sign are in the name of the trace'
run -o 't-%p.db' -- "$reach" exec
is "$(cd "$scratch/here" && ls | grep -c '^t-[0-9]*\(-2\)*.db$')" 2 'a program that executes itself has another trace'
for trace in "$scratch/here"/t-*.db; do
    rows "$trace"
done >"$scratch/rows"
is "$(sort -u "$scratch/rows")" '1,0,1048576,0' 'both have all, also the one whose end was the execution'
run -o t.db -- "$reach" die 9
is "$status $(rows "$scratch/here/t.db")" '137 1,0,1048576,0' 'the trace of a program that is killed has all'
run -o t.db -- "$reach" quiet
is "$files" '' 'a process that allocates nothing leaves nothing'
run -o t.db -- "$reach" threads
is "$(rows "$scratch/here/t.db")" '16,0,65536,0' '16 threads that allocate first at one time are all recorded'
run -o t.db -- "$reach" fork
is "$status $(for file in $files; do rows "$scratch/here/$file"; done | sort -u)" '0 1,0,1048576,0' \
    'a child of fork and its parent are recorded'
run -o t.db --stack 'statistics | log(callstack=8)' -- "$reach" handle
is "$status $(rows "$scratch/here/t.db")" '0 1,0,1048576,0' '--stack composes the layers'
run -o no/such/folder/t.db -- "$reach" handle
is "$status $(echo "$said" | wc -l) $(echo "$said" | tail -n 1)" "0 2 handle: $usual" \
    'a trace that cannot be written is one line, and the program goes on'
has_words "$said" 'tidemark: ' 'that line says who speaks'
budget=run-account-t-$$
run -o t.db --budget "$budget=1536KiB" -- "$reach" handle
is "$said" 'handle: 0 1 0 1 0 0 1572864' 'under a budget the device has its size'
run -o t.db --budget "$budget=1536KiB" -- sh -c "'$reach' die 9; '$reach' handle"
is "$(echo "$said" | grep handle)" 'handle: 0 1 0 1 0 0 1572864' 'a process that is killed gives its part of the budget back'
run -o t.db --budget "$budget-small=512KiB" -- "$reach" handle
is "$said" 'handle: 2 1 0 0 0 0 524288' 'a budget refuses as the driver does'
rm -f "/dev/shm/tidemark-budget-$budget" "/dev/shm/tidemark-budget-$budget-small"
run --summary -o t.db -- "$reach" handle
has_words "$said" "tidemark run: recorded in $scratch/here/t.db" '--summary names the trace'

# What is called before the program's own cuInit() gets the driver's answer, and the account begins after it.
for way in audit preload; do
    run --interpose=$way -o t.db -- "$reach" early
    is "$said" "before: 3 3 3
after: $usual" "before cuInit() calls get the driver's own answer, as without ($way)"
    is "$(rows "$scratch/here/t.db")" '1,0,1048576,0' "and the account begins with the first call after it ($way)"
done
run -o t.db --limit 512KiB -- "$reach" early
is "$said" 'before: 3 3 3
after: 2 1 0 0 0 0 524288' 'with a limit, too, which holds from then on'

# Where the account cannot be made after the start there is no limit: the memory is refused.
run -o 'no-%p/t.db' -- "$reach" handle
is "$(echo "$said" | tail -n 1)" "handle: $usual" 'without a limit a program goes on where its trace cannot be written'
run -o 'no-%p/t.db' --limit 512MiB -- "$reach" handle
is "$status $(echo "$said" | tail -n 1)" '0 handle: 2 1 0 0 0 0 536870912' \
    'with a limit it gets no memory there, rather than any amount of it'
has_words "$said" 'gets no memory, since without its account no limit holds: ' 'and one line says why'
is "$(echo "$said" | wc -l)" 2 'that line is the only one'
: >"$scratch/no-library"
said=$(cd "$scratch/here" && TIDEMARK_LIBRARY="$scratch/no-library" timeout 60 "$tidemark" run --limit 512MiB -o u.db -- \
    "$reach" handle 2>&1)
has_words "$said" 'and all device memory refused, since no limit holds: ' \
    'where the account does not start at all, one line says that its limit cannot hold'
is "$(echo "$said" | tail -n 1 | cut -d' ' -f1-3)" 'handle: 2 2' 'and there memory is refused, too'
said=$(cd "$scratch/here" && TIDEMARK_LIBRARY="$scratch/no-library" timeout 60 "$tidemark" run -o u.db \
    --stack 'log(path=limit.db)' -- "$reach" handle 2>&1)
is "$(echo "$said" | tail -n 1)" "handle: $usual" 'there a stack without a limit has the memory, whatever its files are called'

# The account at the end, of a program with a context of its own, however it ends.
for end in return exit _exit term; do
    run -o t.db -- "$reach" end $end
    "$tidemark" query --csv "$scratch/here/t.db" "SELECT
        (SELECT sum(bytes) FROM (SELECT reserved_bytes AS bytes, max(pool_sample.rowid) FROM pool_sample
            JOIN layer USING (layer_id) WHERE kind = 'process' AND config LIKE 'kind=plain,%' GROUP BY layer_id)),
        (SELECT count(*) > 0 AND max(total_bytes - free_bytes) >= 12582912 FROM device_sample),
        (SELECT max(ns) FROM device_sample) > (SELECT max(alloc_ns) FROM allocation) - 1000000000" |
        tail -n 1 >"$scratch/end"
    is "$(cat "$scratch/end")" '12582912,1,1' \
        "the last figures are of less than a second before the last call of a program that ends by $end"
done

# The driver ends before the destructors of libraries run: the last sample is taken before that. The fake has 32 MiB of
# its own, and the one block that another thread may have at that moment is a page of 2 MiB.
for end in return exit threads thread signal fork; do
    run --summary -o t.db -- "$reach" end $end
    "$tidemark" query --csv "$scratch/here/t.db" "SELECT
        (SELECT (total_bytes - free_bytes) / 1048576 IN (44, 46) FROM device_sample ORDER BY rowid DESC LIMIT 1),
        (SELECT max(ns) FROM device_sample) > (SELECT alloc_ns FROM allocation WHERE size = 8388608)" |
        tail -n 1 >"$scratch/end"
    is "$status $(cat "$scratch/end")" '0 1,1' \
        "the last sample of the device has what a program holds that ends by $end"
done
"$tidemark" query --csv "$scratch/here/t.db" "SELECT (SELECT value FROM meta WHERE key = 'cupti'),
    (SELECT value FROM meta WHERE key = 'ended')" | tail -n 1 >"$scratch/end"
is "$(cat "$scratch/end")" 'off: cupti=off,exit' 'without an option the trace of a program uses no CUPTI'
run -o t.db --stack 'log(cupti=calls)' -- "$reach" handle
is "$("$tidemark" query --csv "$scratch/here/t.db" "SELECT value FROM meta WHERE key = 'cupti'" | tail -n 1)" calls \
    'it does where the log of its stack says so'
run -o t.db -- "$reach" end hang
is "$status $said" '0 0 0' 'a program ends whose driver has stopped to answer by then'
is "$("$tidemark" query --csv "$scratch/here/t.db" "SELECT sum(size),
    (SELECT value FROM meta WHERE key = 'complete'), (SELECT value FROM meta WHERE key = 'ended') FROM allocation" |
    tail -n 1)" '12582912,1,recovered' 'the next command completes its trace, which has all'
run -o t.db -- "$reach" end again
is "$status $said" '0 0 0' 'it ends, too, where a signal handler interrupts exit() to call it again'
is "$("$tidemark" query --csv "$scratch/here/t.db" "SELECT sum(size),
    (SELECT value FROM meta WHERE key = 'complete'), (SELECT value FROM meta WHERE key = 'ended') FROM allocation" |
    tail -n 1)" '12582912,1,recovered' 'the next command completes that trace as well'
run -o t.db -- "$reach" end devices
"$tidemark" summary --json "$scratch/here/t.db" | grep -o '"tracked_bytes":[0-9]*\|"unaccounted_bytes":[0-9]*' |
    sed 's/.*://' | tr '\n' ' ' >"$scratch/end"
is "$(cat "$scratch/end")" '20971520 33554432 12582912 33554432 ' \
    'the account of each of two devices has what was allocated last'
run -o t.db -- "$reach" end return
"$tidemark" summary --json "$scratch/here/t.db" |
    sed 's/.*"account":\[{\([^}]*\)}.*/\1/; s/,"ns":.*//; s/"//g' >"$scratch/end"
is "$(cat "$scratch/end")" \
    'device:0,tracked_bytes:12582912,used_bytes:46137344,unaccounted_bytes:33554432,before_bytes:33554432' \
    'the account at the end is of one moment: what is tracked and what is not are what is in use'

# --summary takes what this run has made, and nothing else that is new there.
run --summary -o 't-%p.db' -- sh -c "'$tidemark' run -o t-other.db -- '$reach' handle >'$scratch/aside'
    env -u TIDEMARK_RUN_LIST '$tidemark' run -o t-stranger.db -- '$reach' handle >'$scratch/aside'; '$reach' handle"
is "$(echo "$said" | sed -n 's/^tidemark run: recorded in .*\/t-//p' | sed 's/^[0-9][0-9]*/N/' | tr '\n' ' ')" \
    'other.db N.db ' '--summary takes the traces of the processes that it has started, in their order, and no others'
run --summary -o t.db -- sh -c "cd / && mkdir '$scratch/here/sub' && '$tidemark' run --summary -o '$scratch/here/sub/u.db' -- '$reach' handle 2>'$scratch/aside'"
has_words "$(grep -c 'recorded in' "$scratch/aside") $said" 'sub/u.db' \
    'where it runs within another that waits, both take the trace, wherever it lies'
run --summary -o t.db -- "$reach" quiet
has_words "$said" "no process has told of a trace ($scratch/here/t.db): " 'where no process has allocated it says so, and what the trace would be'
: >"$scratch/other"
exec 9>>"$scratch/other"
TIDEMARK_RUN_LIST=/proc/$$/fd/9
export TIDEMARK_RUN_LIST
run -o t.db -- "$reach" handle
run --summary -o u.db -- "$reach" handle
unset TIDEMARK_RUN_LIST
exec 9>&-
is "$(wc -c <"$scratch/other") $status" '0 0' 'a file of another process in the place of a list gets nothing'
if (command -v python3 && python3 -c 'import sys; sys.exit(sys.version_info < (3, 9))') >/dev/null 2>&1; then
    rm -rf "$scratch/here"
    mkdir "$scratch/here" "$scratch/bin"
    ln -s "$tidemark" "$scratch/bin/tidemark"
    said=$(cd "$scratch/here" && PATH=$scratch/bin:$PATH PYTHONPATH=$top_srcdir/python PYTHONDONTWRITEBYTECODE=1 \
        python3 -m tidemark run -o t.db -- "$reach" handle 2>&1)
    is "$said $(rows "$scratch/here/t.db")" "handle: $usual 1,0,1048576,0" 'python -m tidemark run is the same'
else
    skip 1 'there is no python3 of 3.9 or later'
fi
done_testing
