#!/bin/sh
# Tests `tidemark metrics`: what it prints of recordings that run, end and are killed, of hostile names and damaged
# files; that the text keeps to its formats; and the rules and the dashboard in doc/.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

# said ARGUMENT...: what `metrics` prints, standard error too, and its status.
said() {
    timeout 60 "$tidemark" metrics "$@" >"$scratch/said" 2>&1
    tap_status=$?
    echo "$(cat "$scratch/said") $tap_status"
}

# value NAME [LABELS]: the values of the samples in $scratch/text with that name and labels.
value() {
    grep "^$1[{ ]" "$scratch/text" | grep -F -- "${2-}" | sed 's/.* //'
}

# pages COUNT TAGS [TRACE]: running recordings in $scratch/many; `tell` talks to the program that holds them.
pages() {
    rm -rf "$scratch/many" "$scratch/tell" "$scratch/told"
    mkdir "$scratch/many"
    mkfifo "$scratch/tell" "$scratch/told"
    "$top_builddir/tests/gauge-pages" "$scratch/many" "$@" <"$scratch/tell" >"$scratch/told" &
    pages_pid=$!
    exec 8>"$scratch/tell" 9<"$scratch/told"
    read -r answer <&9
}

tell() {
    echo "$*" >&8
    read -r answer <&9
}

# Python with the reader of OpenMetrics that Prometheus' client has; empty: none.
for python in "${PYTHON:-python3}" /usr/bin/python3 ''; do
    test -z "$python" || ! "$python" -c 'import prometheus_client.openmetrics.parser' 2>/dev/null || break
done

plan 73

# Wrong use.
has_words "$(said)" 'a trace, a folder or a process id is missing' 'metrics without an argument says what is missing'
has_words "$(said --listen=1:1 --textfile=x "$scratch")" 'contradict each other' '--listen and --textfile contradict each other'
has_words "$(said --listen=1:1 --format=prometheus "$scratch")" 'a client asks for its format' '--listen and --format contradict each other'
has_words "$(said --textfile=x --format=openmetrics "$scratch")" 'reads the format of prometheus' \
    '--textfile and --format=openmetrics contradict each other'
has_words "$(said --format=json "$scratch")" 'openmetrics' 'a format that there is not is refused, and those that there are named'
has_words "$(said --tags=65 "$scratch")" 'from 0 to 64' 'more tags than a page has are refused'
has_words "$(said --tags=x "$scratch")" 'tags' 'a number of tags that is none is refused'
has_words "$(said --textfile= "$scratch")" 'not an empty text' 'a textfile without a name is refused'
for address in 9455 127.0.0.1 :9455 127.0.0.1: 127.0.0.1:http 127.0.0.1:-1 ::1:99999 ::1:9455 '[]:1' '[]:99999'; do
    has_words "$(said --listen="$address" "$scratch")" 'write an address and a port, as 127.0.0.1:9455' \
        "--listen=$address is refused, and what to write is said"
done
for address in 127.0.0.1:65536 '[::1]:99999' 127.0.0.1:99999999999999999999999; do
    is "$(said --listen="$address" "$scratch" | grep -c "listen=.*: the port is out of range: 1 to 65535, or 0, which takes any")" 1 \
        "--listen=$address is refused, and the range of ports is said"
done
has_words "$(said "$scratch/none.db")" 'No such file or directory 2' 'a trace that is not there is an error of metrics'
has_words "$(said 999999999)" 'tidemark metrics: 999999999 is no trace, no folder and no process 2' \
    'a process that is not there is an error of metrics'
mkdir "$scratch/empty"
said "$scratch/empty" >"$scratch/out"
cp "$scratch/said" "$scratch/text"
is "$tap_status $(value tidemark_metrics_recordings 'up="yes"') $(tail -n 1 "$scratch/text")" '0 0 # EOF' \
    'an empty folder has no recordings, and that is no error'

is "$(value tidemark_metrics_folder_readable "folder=\"$scratch/empty\"")" 1 'a folder that was looked through is told to be readable'
"$tidemark" metrics "$scratch/empty" "$scratch/empty" >"$scratch/text"
is "$(value tidemark_metrics_folder_readable)" 1 'a folder that is named twice is one series'

# A folder that cannot be read is not one in which nothing is recorded.
nobody=
test "$(id -u)" -ne 0 || nobody='setpriv --reuid=65534 --regid=65534 --clear-groups'
mkdir "$scratch/closed" "$scratch/textfile"
echo whole >"$scratch/textfile/x.prom"
chmod 711 "$scratch"
chmod 777 "$scratch/textfile"
chmod 311 "$scratch/closed"
if $nobody test -r "$tidemark" 2>/dev/null; then
    is "$($nobody "$tidemark" metrics "$scratch/closed" 2>&1; echo $?)" "$scratch/closed: Permission denied
2" 'a folder that may not be read is an error of metrics'
    is "$($nobody "$tidemark" metrics --textfile="$scratch/textfile/x.prom" "$scratch/closed" 2>&1; echo $?) $(cat "$scratch/textfile"/*)" \
        "$scratch/closed: Permission denied
2 whole" 'where a folder may not be read, a textfile stays as it is'
    is "$($nobody "$tidemark" watch --count=1 "$scratch/closed" 2>&1; echo $?)" "$scratch/closed: Permission denied
2" 'a folder that may not be read is an error of watch'
else
    skip 3 'there is no other user to become'
fi

# Real recordings, at rest: the figures are those of the page, and of the trace afterwards.
mkfifo "$scratch/ready"
"$top_builddir/tests/slowly" "$scratch/run.db" 60 >"$scratch/ready" &
running=$!
read -r answer <"$scratch/ready"
"$tidemark" metrics "$scratch/run.db" >"$scratch/text" 2>"$scratch/err"
is "$(value tidemark_up "pid=\"$running\"")" 1 'a recording that goes on is up, and has its process id'
ok 'the state and the name of the program, without its folder and its arguments, are in the info' \
    grep -q '^tidemark_recording_info{.*state="recording",command="[^/ "]*slowly"}' "$scratch/text"
is "$(value tidemark_limit_bytes)" 1073741824 'the limit of the stack is a figure'
ok 'the layers have the names that `tidemark watch` shows, and say whether they are outermost' \
    sh -c "grep -q '^tidemark_live_bytes{.*,layer=\"1 log (limit)\",outermost=\"yes\"} [0-9]' '$scratch/text' &&
        grep -q '^tidemark_live_bytes{.*,layer=\"3 pool chunks\",outermost=\"no\"} [0-9]' '$scratch/text'"
ok 'bases say that they are, and suballocators that they are not' \
    sh -c "grep -q '^tidemark_reserved_bytes{.*,layer=\"4 sim\",base=\"yes\"} [0-9]' '$scratch/text' &&
        grep -q '^tidemark_reserved_bytes{.*,layer=\"3 pool chunks\",base=\"no\"} [0-9]' '$scratch/text'"
ok 'an escape sequence in the name of a tag reaches no terminal' \
    sh -c "grep -qF 'tag=\"forward/layer\\\\x1b[31m\"' '$scratch/text' && ! grep -q '$(printf '\033')' '$scratch/text'"
is "$("$tidemark" metrics "$running" | grep -c '^tidemark_up{.*run\.db')" 1 'a process id stands for what it records'
is "$("$tidemark" metrics --tags=0 "$scratch/run.db" | grep -c '^tidemark_tag_live')" 0 '--tags=0 leaves the tags out'
is "$("$tidemark" metrics --no-durations "$scratch/run.db" | grep -c '^tidemark_call_seconds\|^tidemark_up{')" 1 \
    '--no-durations leaves the histograms out'
ln -s "$scratch/run.db" "$scratch/link.db"
"$tidemark" metrics "$scratch/run.db" "$scratch/link.db" >"$scratch/text"
is "$(value tidemark_up | wc -l | tr -d ' ') $(value tidemark_metrics_absent_recordings twice)" '1 1' \
    'a recording that is named twice is counted once'

# Killed: its last word stays.
kill -9 $running
wait $running 2>/dev/null
"$tidemark" watch --json --count=1 "$scratch/run.db" >"$scratch/look" 2>/dev/null
"$tidemark" metrics "$scratch/run.db" >"$scratch/text"
is "$(value tidemark_up)" 0 'a killed recording is not up'
has_words "$(grep '^tidemark_recording_info' "$scratch/text")" 'state="killed"' 'the info says that it was killed'
has_words "$(cat "$scratch/look")" "\"layer_id\":1,\"live_bytes\":$(value tidemark_live_bytes 'layer="1 log')," \
    'the live bytes of a killed recording are its last word'
ok 'the age of its last word is told' test "$(value tidemark_dead_seconds | cut -d . -f 1)" -lt 60
ok 'metrics leaves what a killed program has left' test -e "$scratch/run.db-rings"
is "$("$tidemark" summary "$scratch/run.db" >/dev/null 2>&1; "$tidemark" metrics "$scratch/run.db" | grep -c '^tidemark_up')" 0 \
    'once a command has taken in what it left, it is gone from the figures'

# Made pages with hostile names: quotes, backslashes, line ends, no UTF-8, and two that read the same.
"$top_builddir/tests/make-trace" "$scratch/t.db" "INSERT INTO tag VALUES (1, NULL, 'step'), (2, 1, 'a\"b'), (3, 1, 'c\\d'),
    (4, 1, 'line' || char(10) || 'end'), (5, 1, CAST(x'ff62' AS TEXT)), (6, 1, 'twice'), (7, 1, 'twice');
    INSERT INTO meta VALUES ('job', 'bert \"large\"' || char(10) || '}');"
pages 4 7 "$scratch/t.db"
"$tidemark" metrics "$scratch/many" >"$scratch/text"
is "$(value tidemark_up | sort | uniq -c | tr -s ' ')" ' 4 1' 'each recording of a folder has a sample'
is "$(value tidemark_live_bytes 'rank="3"') $(value tidemark_live_allocations 'rank="3"') $(value tidemark_peak_bytes 'rank="3"')" \
    '4194304 4 8388608' 'live bytes, live allocations and peak are those of the page'
is "$(value tidemark_allocations_total 'rank="3"') $(value tidemark_frees_total 'rank="3"') $(value tidemark_failures_total 'rank="3"') $(value tidemark_allocated_bytes_total 'rank="3"')" \
    '4 0 1 16777216' 'the counters are those of the page'
is "$(value tidemark_used_bytes 'rank="3"') $(value tidemark_reserved_bytes 'rank="3"') $(value tidemark_lost_events_total 'rank="3"' | tr '\n' ' ')" \
    '4194304 12582912 0 3 ' 'used, reserved and lost are those of the page'
is "$(value tidemark_call_seconds_count 'rank="3",run="bert \"large\"\n}",host="elsewhere",op="free"')" 8128 \
    'the calls are counted, and a quote and a line end in the name of a job are escaped'
is "$(value tidemark_call_seconds_bucket 'rank="3"' | head -n 14 | tr '\n' ' ')" \
    '378 630 946 1326 1770 2278 2850 3486 4186 4950 5778 6670 7626 8128 ' 'the buckets are sums of those of the page'
is "$(value tidemark_tag_live_bytes 'rank="3"' | wc -l | tr -d ' ')" 6 'two tags that read the same are one series'
is "$(value tidemark_tag_live_bytes 'rank="3",run="bert \"large\"\n}",host="elsewhere",layer="1 log (sim)",outermost="yes",tag="step/twice"')" \
    $((4194304 / 6 + 4194304 / 7)) 'two tags that read the same have the sum of both'
for name in 'a\"b quote' 'c\\d backslash' 'line\nend line end' '\\xffb byte that is no UTF-8'; do
    is "$(grep -cF "tag=\"step/${name%% *}\"" "$scratch/text")" 8 \
        "a tag with a ${name#* } is a label, escaped, in both families of tags of four recordings"
done
is "$("$tidemark" metrics --tags=2 "$scratch/many/rank-3.db" | grep '^tidemark_tag_live_bytes\|left_out{' | sed 's/.* //' | tr '\n' ' ')" \
    '4194304 2097152 5 ' '--tags=2 shows the two largest, and says how many it leaves out'
"$tidemark" metrics --format=prometheus "$scratch/many" >"$scratch/prometheus"
is "$(grep -c '^# EOF\|^# UNIT' "$scratch/prometheus") $(grep '^# TYPE tidemark_allocations' "$scratch/prometheus")" \
    '0 # TYPE tidemark_allocations_total counter' "the format of Prometheus has that format's heads"
is "$(grep -v '^#\|updated\|gather' "$scratch/prometheus" | cksum)" "$(grep -v '^#\|updated\|gather' "$scratch/text" | cksum)" \
    'both formats have the same samples'
if command -v promtool >/dev/null; then
    ok 'promtool finds nothing in the text' promtool check metrics <"$scratch/prometheus"
    is "$(promtool check metrics <"$scratch/prometheus" 2>&1)" '' 'promtool has no word on the text'
    ok 'promtool finds nothing in the rules' promtool check rules "$top_srcdir/doc/metrics-rules.yml"
    cp "$top_srcdir/doc/metrics-rules.yml" "$top_srcdir/tests/metrics-rules-test.yml" "$scratch"
    ok 'each rule fires when it should, and not before' promtool test rules "$scratch/metrics-rules-test.yml"
else
    skip 4 'there is no promtool'
fi
if test -n "$python"; then
    ok "the reader of Prometheus' client takes it as OpenMetrics, and every name back as it was" \
        "$python" "$top_srcdir/tests/metrics.py" openmetrics "$scratch/text"
else
    skip 1 "there is no prometheus_client in this Python"
fi
if python3 -c 'import json' 2>/dev/null; then
    ok 'the dashboard is JSON, and asks for nothing that is not among the samples' \
        python3 "$top_srcdir/tests/metrics.py" dashboard "$top_srcdir/doc/metrics-dashboard.json" "$scratch/text"
else
    skip 1 'there is no python3'
fi
is "$(sed -n 's/^| `\(tidemark_[a-z_]*\)`.*/\1/p' "$top_srcdir/doc/metrics.md" | sort | tr '\n' ' ')" \
    "$(sed -n 's/^# TYPE \([a-z_]*\) .*/\1/p' "$scratch/prometheus" | sort | tr '\n' ' ')" 'doc/metrics.md describes every family, and no other'

# Whole files.
"$tidemark" metrics --textfile="$scratch/out.prom" "$scratch/many"
is "$(grep -v '^#\|updated\|gather' "$scratch/out.prom" | cksum)" "$(grep -v '^#\|updated\|gather' "$scratch/prometheus" | cksum)" \
    'a textfile has the format of Prometheus'
ln -s "$scratch/out.prom" "$scratch/link.prom"
has_words "$(said --textfile="$scratch/link.prom" "$scratch/many")" 'cannot be replaced as a whole 2' 'a textfile is no link'
has_words "$(said --textfile="$scratch/t.db" "$scratch/many")" 'is a database: it is not overwritten 2' 'a textfile is no trace'
has_words "$(said --textfile="$scratch/none/x.prom" "$scratch/many")" 'No such file or directory 2' 'a textfile in a folder that is not there is an error'
ok 'nothing is left beside a textfile' test "$(ls "$scratch" | grep -c 'out\.prom')" = 1

# Damaged, ended, and of another version.
tell kill 1
tell end 2
printf 'X' | dd of="$scratch/many/rank-3.db-rings" bs=1 conv=notrunc 2>/dev/null
"$tidemark" metrics "$scratch/many" >"$scratch/text"
is "$(grep '^tidemark_recording_info' "$scratch/text" | sed 's/.*rank-\([0-9]\).*state="\([a-z]*\)".*/\1 \2/' | tr '\n' ' ')" \
    '0 recording 1 killed 3 damaged ' 'of a folder with a killed, an ended and a damaged recording the ended one is gone'
exec 8>&- 9<&-
kill "$pages_pid"
wait "$pages_pid" 2>/dev/null
done_testing
