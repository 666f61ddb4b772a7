#!/bin/sh
# Tests `tidemark metrics --listen`: 1,024 recordings, Prometheus itself, and clients that behave badly.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
unset TIDEMARK_STACK

# Python of this system where there is no other: the clients need nothing beside it.
command -v python3 >/dev/null || skip_all 'there is no python3, in which the clients are'

server=
trap 'test -z "$server" || kill "$server" 2>/dev/null; rm -rf "$scratch"' EXIT

# serve ADDRESS ARGUMENT...: a server in the background; its port: $port.
serve() {
    address=$1
    shift
    : >"$scratch/served"
    "$tidemark" metrics --listen="$address" "$@" >"$scratch/served" 2>&1 &
    server=$!
    tries=0
    until grep -q '/metrics$' "$scratch/served" || test $tries = 300 || ! kill -0 $server 2>/dev/null; do
        tries=$((tries + 1))
        sleep 0.1
    done
    port=$(sed -n 's/.*:\([0-9]*\)\/metrics$/\1/p' "$scratch/served")
}

# stop SIGNAL: ends the server; its exit status is $stopped.
stop() {
    kill -"$1" $server
    wait $server
    stopped=$?
    server=
}

# costs COUNT: processor time of the server in ms for a scrape, of so many.
costs() {
    before=$("$AWK" '{ print $14 + $15 }' "/proc/$server/stat")
    clients scrape "$port" "$1" >/dev/null
    after=$("$AWK" '{ print $14 + $15 }' "/proc/$server/stat")
    echo $(((after - before) * 1000 / $(getconf CLK_TCK) / $1))
}

clients() {
    timeout 120 python3 "$top_srcdir/tests/metrics-clients.py" "$@" 2>&1
}

# fetch: the text into $scratch/text.
fetch() {
    python3 -c 'import sys, urllib.request as u; sys.stdout.write(u.urlopen("http://127.0.0.1:%s/metrics" % sys.argv[1]).read().decode())' \
        "$port" >"$scratch/text"
}

tell() {
    echo "$*" >&8
    read -r answer <&9
}

mkdir "$scratch/many"
serve 127.0.0.1:0 "$scratch/many"
! grep -q 'built without libmicrohttpd\|needs libmicrohttpd' "$scratch/served" || skip_all "$(cat "$scratch/served")"
plan 34
ok 'the server says where it listens' grep -qx 'tidemark metrics: listening on http://127.0.0.1:[0-9]*/metrics' "$scratch/served"
"$tidemark" metrics --listen="127.0.0.1:$port" "$scratch/many" >"$scratch/out" 2>&1
is "$? $(cat "$scratch/out")" "2 tidemark metrics: --listen=127.0.0.1:$port: another program listens there" \
    'a port in use is an error that says so'
timeout 60 "$tidemark" metrics --listen=192.0.2.1:0 "$scratch/many" >"$scratch/out" 2>&1
is "$? $(cat "$scratch/out")" "2 tidemark metrics: --listen=192.0.2.1:0: Cannot assign requested address" \
    'an address that this machine does not have is an error that says so'

# Recordings that begin after the server.
"$top_builddir/tests/make-trace" "$scratch/t.db" "INSERT INTO tag VALUES (1, NULL, 'forward'), (2, NULL, 'backward'),
    (3, NULL, 'optimizer'), (4, NULL, 'loss'); INSERT INTO meta VALUES ('job', 'bert');"
mkfifo "$scratch/tell" "$scratch/told"
"$top_builddir/tests/gauge-pages" "$scratch/many" 1024 4 "$scratch/t.db" <"$scratch/tell" >"$scratch/told" &
pages=$!
exec 8>"$scratch/tell" 9<"$scratch/told"
read -r answer <&9
fetch
shown=$(grep -c '^tidemark_up{' "$scratch/text")
waiting=$(sed -n 's/^tidemark_metrics_absent_recordings{reason="names not read yet"} //p' "$scratch/text")
is $((shown + waiting)) 1024 'recordings that have begun since are among the samples, or counted as waiting for their names'
tries=0
until test "$(grep -c '^tidemark_up{.*rank="' "$scratch/text")" = 1024 || test $tries = 100; do
    tries=$((tries + 1))
    sleep 0.3
    fetch
done
is "$(grep -c '^tidemark_up{.*rank="[0-9]*",run="bert",host="elsewhere"} 1' "$scratch/text")" 1024 \
    '1,024 recordings are served with their ranks'
tell 500
sleep 0.3
fetch
is "$(sed -n 's/^tidemark_frees_total{.*rank="1023".*} //p' "$scratch/text")" 500 'a scrape has what the programs have done by then'
diag "a scrape of 1,024 recordings: $(clients scrape "$port" 5)"
diag "processor time of one: $(costs 10) ms"
tell kill 7
tell end 8
sleep 0.3
fetch
is "$(sed -n 's/^tidemark_up{.*rank="7".*} //p' "$scratch/text") $(grep -c 'rank="8"' "$scratch/text") $(grep -c '^tidemark_up{' "$scratch/text")" \
    '0 0 1023' 'a killed recording is shown as dead, and one that has ended no longer'
ok 'a killed recording says how long it is dead' grep -q '^tidemark_dead_seconds{.*rank="7".*} [0-9]' "$scratch/text"

# Clients. One of them waits to be sent away, while others are served.
clients slow "$port" >"$scratch/slow" &
slow=$!
is "$(clients requests "$port")" '200 200 200 404 404 404 405 405 400 200 200 404 404 404' \
    'GET and HEAD of /metrics are answered, and all else with 404, 405 or 400'
is "$(clients types "$port")" 'text/plain- application/openmetrics-text+ text/plain- text/plain- text/plain- application/openmetrics-text+ text/plain- text/plain-' \
    'who asks for OpenMetrics gets it, and the format of Prometheus who does not, or would rather have that'
is "$(clients junk "$port")" '0 200' 'requests that are no HTTP, or too large, get no figures, and the server goes on'
is "$(clients greedy "$port" 60)" 60 '60 scrapes in a row are answered'
wait $slow
is "$(cat "$scratch/slow")" 'sent away 200' 'a client that sends a byte now and then is sent away'
limit=$(ulimit -Hn)
if test "$limit" = unlimited || test "$limit" -gt 10200; then
    is "$(clients many "$port" 10000)" '11 of 11 scrapes, 0 refused' '10,000 connections that say nothing keep no scrape from its answer'
else
    skip 1 "this system gives a process $limit files, fewer than 10,000 connections need"
fi
ok 'the server has closed all but the last connections' test "$(ls "/proc/$server/fd" | grep -c .)" -lt 1700
memory=$(sed -n 's/^VmHWM:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$server/status")
diag "memory of the server: $memory KiB"
# A sanitizer takes memory of its own: 586 MiB in all.
case $CFLAGS in
*-fsanitize*) most=1024 ;;
*) most=512 ;;
esac
ok "the server needs less than $most MiB for all of them" test "$memory" -lt $((most * 1024))

# Prometheus itself.
if command -v prometheus >/dev/null; then
    free=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    cat >"$scratch/prometheus.yml" <<YAML
global: { scrape_interval: 1s }
rule_files: ['$(realpath "$top_srcdir")/doc/metrics-rules.yml']
scrape_configs:
  - job_name: tidemark
    static_configs: [ { targets: ['127.0.0.1:$port'] } ]
YAML
    prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" \
        --web.listen-address="127.0.0.1:$free" --log.level=warn >"$scratch/prometheus.log" 2>&1 &
    prometheus=$!
    # asked QUERY: the value of the first series; empty: there is none.
    asked() {
        python3 -c 'import json, sys, urllib.parse as p, urllib.request as u
result = json.load(u.urlopen("http://127.0.0.1:%s/api/v1/query?query=%s" % (sys.argv[1], p.quote(sys.argv[2]))))["data"]["result"]
print(result[0]["value"][1] if result else "")' "$free" "$1" 2>/dev/null
    }
    tries=0
    until test "$(asked 'count(tidemark_up)')" = 1023 || test $tries = 60; do
        tries=$((tries + 1))
        sleep 0.5
    done
    is "$(asked 'count(tidemark_up)') $(asked 'tidemark_up{rank="7"}')" '1023 0' 'Prometheus has scraped all recordings, the dead one as dead'
    is "$(asked 'topk(1, tidemark_live_bytes)') $(asked 'max(tidemark_live_bytes) - min(tidemark_live_bytes)')" \
        '1073741824 1072693248' 'Prometheus answers which rank has most, and how far apart they are'
    ok 'Prometheus has no word on the samples' sh -c "! grep -i 'tidemark\|sample\|scrape' '$scratch/prometheus.log'"
    diag "Prometheus says that a scrape takes $(asked 'min_over_time(scrape_duration_seconds[1m])') s, of $(asked scrape_samples_scraped) samples"
    kill $prometheus
    wait $prometheus
else
    skip 3 'there is no prometheus'
fi
stop TERM
is $stopped 0 'SIGTERM ends the server with status 0'
serve 127.0.0.1:0 --no-durations --tags=0 "$scratch/many"
diag "a scrape without durations and tags: $(clients scrape "$port" 5), processor time $(costs 10) ms"
stop HUP
is $stopped 0 'SIGHUP ends the server with status 0'
exec 8>&- 9<&-
kill $pages
wait $pages 2>/dev/null

# A trace that is named: its recording ends, and another one begins under its name.
mkfifo "$scratch/ready"
record() {
    rm -f "$scratch/again.db"
    "$top_builddir/tests/slowly" "$scratch/again.db" "$1" >"$scratch/ready" &
    recorded=$!
    read -r answer <"$scratch/ready"
}
record 8
serve 127.0.0.1:0 "$scratch/again.db"
fetch
first=$(grep -c "^tidemark_up{.*pid=\"$recorded\".*} 1" "$scratch/text")
wait $recorded
sleep 0.3
fetch
between=$(grep -c '^tidemark_up{' "$scratch/text")
record 30
tries=0
until fetch && grep -q '^tidemark_up{' "$scratch/text" || test $tries = 40; do
    tries=$((tries + 1))
    sleep 0.1
done
is "$first $between $(grep -c "^tidemark_up{.*pid=\"$recorded\".*} 1" "$scratch/text")" '1 0 1' \
    'a trace that is named is found again where another recording begins under its name'
kill $recorded
stop TERM

# What is kept from scrape to scrape is of the file that has the name now, and of what it says now.
# pages FOLDER COUNT: recordings whose pages were written once, until `let_go`.
pages() {
    mkdir -p "$scratch/$1"
    rm -f "$scratch/tell" "$scratch/told"
    mkfifo "$scratch/tell" "$scratch/told"
    "$top_builddir/tests/gauge-pages" "$scratch/$1" "$2" 4 "$scratch/t.db" <"$scratch/tell" >"$scratch/told" &
    pages=$!
    exec 8>"$scratch/tell" 9<"$scratch/told"
    read -r answer <&9
}
let_go() {
    exec 8>&- 9<&-
    kill $pages
    wait $pages 2>/dev/null
}
# shown FILE: the process and the live bytes that are told of a trace.
shown() {
    sleep 0.3
    fetch
    echo "$(sed -n "s/^tidemark_live_bytes{trace=\"[^\"]*$1\",pid=\"\([0-9]*\)\".*} /\1 /p" "$scratch/text")"
}
pages other 5
mkdir "$scratch/few"
for rank in 0 1 2; do ln "$scratch/other/rank-$rank.db-rings" "$scratch/few/rank-$rank.db-rings"; done
serve 127.0.0.1:0 "$scratch/few"
is "$(shown rank-0.db), $(shown rank-1.db)" '100000 1048576, 100001 2097152' 'recordings without their traces are served, too'
mv "$scratch/other/rank-3.db-rings" "$scratch/few/rank-0.db-rings"
is "$(shown rank-0.db)" '100003 4194304' 'where another recording takes a name whose page is written as often, its figures are told'
tell 5
is "$(shown rank-0.db) $(sed -n 's/^tidemark_frees_total{.*pid="100003".*} //p' "$scratch/text")" '100003 4194304 5' \
    'a page that is written again is read again'
cat "$scratch/other/rank-4.db-rings" >"$scratch/few/rank-1.db-rings"
is "$(shown rank-1.db)" '100004 5242880' 'where a file is written over by another recording, its figures are told'
: >"$scratch/few/rank-2.db-rings"
is "$(shown rank-2.db)|$(shown rank-0.db)" '|100003 4194304' 'a file that is cut off has no figures, and the others go on'
rm "$scratch/few/rank-0.db-rings"
cp "$scratch/other/rank-4.db-rings" "$scratch/few/rank-9.db-rings"
is "$(shown rank-0.db)$(shown rank-9.db) $(sed -n 's/^tidemark_metrics_absent_recordings{reason="twice"} //p' "$scratch/text")" \
    '100003 4194304 1' 'a recording whose name is gone has its last word, and a copy of another is not told twice'
stop TERM
let_go

# A recording begins where a killed one was, and a scrape falls between its header and its first page.
pages again 1
serve 127.0.0.1:0 "$scratch/again"
named() {
    tries=0
    until fetch && grep -q '^tidemark_up{.*run=' "$scratch/text" || test $tries = 50; do
        tries=$((tries + 1))
        sleep 0.1
    done
    sed -n 's/^tidemark_up{.*\(pid="[0-9]*"\).*\(run="[a-z]*"\).*/\1 \2/p' "$scratch/text"
}
before=$(named)
tell again 0
rm "$scratch/again/rank-0.db"
"$top_builddir/tests/make-trace" "$scratch/again/rank-0.db" "INSERT INTO meta VALUES ('job', 'other'), ('rank', 0);"
sleep 0.3
fetch
between=$(grep -c '^tidemark_live_bytes' "$scratch/text")
tell 5
is "$before, $between, $(named)" 'pid="100000" run="bert", 0, pid="200000" run="other"' \
    'a recording that begins under the name of another has names of its own, also where it was seen before its first page'
stop TERM
let_go

# A folder that goes while it is served, and comes back.
mkdir "$scratch/goes"
serve 127.0.0.1:0 "$scratch/goes"
readable() {
    sleep 0.3
    fetch
    sed -n 's/^tidemark_metrics_folder_readable{folder=".*goes"} //p' "$scratch/text"
}
before=$(readable)
rmdir "$scratch/goes"
gone=$(readable)$(readable)
is "$before $gone $(grep -c 'tidemark_up{' "$scratch/text")" '1 00 0' 'a folder that was removed is told not to be readable, and is no trace'
is "$(grep -c "goes: No such file or directory" "$scratch/served")" 1 'a folder that was removed is told once on standard error'
mkdir "$scratch/goes"
is "$(readable)" 1 'a folder that is there again is readable again'
stop TERM

if python3 -c 'import socket; socket.socket(socket.AF_INET6).bind(("::1", 0))' 2>/dev/null; then
    serve '[::1]:0' "$scratch/many"
    is "$(grep -o 'http.*]' "$scratch/served") $(clients sixth "$port")" 'http://[::1] 200' 'an address of IPv6 is served, too'
    stop INT
    is $stopped 0 'SIGINT ends the server with status 0'
else
    skip 2 'there is no IPv6 here'
fi
done_testing
