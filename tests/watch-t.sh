#!/bin/sh
# Tests `tidemark watch`: its figures are those of the trace at the same moments; programs that run, end, are killed; 64
# at once; files that are old, newer, damaged, or vanish; and the screen, through tmux.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
slowly=$top_builddir/tests/slowly
unset TIDEMARK_STACK

# start TRACE SECONDS [STACK]: record in the background, and wait until there is something. Its process: $started.
start() {
    rm -f "$scratch/ready"
    mkfifo "$scratch/ready"
    "$slowly" "$@" >"$scratch/ready" &
    started=$!
    read -r line <"$scratch/ready"
    test "$line" = ready || diag "slowly says: $line"
}

# said ARGUMENT...: what `watch` prints, standard error too, and its status.
said() {
    timeout 60 "$tidemark" watch "$@" >"$scratch/said" 2>&1
    tap_status=$?
    echo "$(cat "$scratch/said") $tap_status"
}

# field NAME FILE: the numbers of a field, one a line.
field() {
    grep -o "\"$1\":[0-9]*" "$2" | cut -d : -f 2
}

# poke FILE OFFSET OCTAL...: overwrite bytes.
poke() {
    poked=$1
    at=$2
    shift 2
    for byte; do
        printf "\\$byte" | dd of="$poked" bs=1 seek="$at" conv=notrunc 2>/dev/null
        at=$((at + 1))
    done
}

plan 60

# Wrong use.
has_words "$(said)" 'a trace, a folder or a process id is missing' 'watch without an argument says what is missing'
has_words "$(said --interval=5 "$scratch")" 'write a time from 20ms to 60min with its unit' \
    'an interval without a unit is refused'
has_words "$(said --interval=1ms "$scratch")" 'from 20ms' 'an interval that is too short is refused'
has_words "$(said --interval=2h "$scratch")" 'to 60min' 'an interval that is no time is refused'
has_words "$(said --interval=61min "$scratch")" 'to 60min' 'an interval that is too long is refused'
has_words "$(said --plain --json "$scratch")" 'contradict each other' 'lines and JSON contradict each other'
has_words "$(said "$scratch/none.db")" 'No such file or directory 2' 'a trace that is not there is an error'
has_words "$(said 999999999)" 'no trace, no folder and no process 2' 'a process that is not there is an error'
has_words "$(said $$)" 'records no trace' 'a process that records nothing is an error'
has_words "$(said --count=1 "$scratch")" 'nothing is recorded there now' 'an empty folder has nothing to show'

# A running program: the figures at each look are those of the trace at the same moment.
trace=$scratch/a.db
start "$trace" 4
"$tidemark" watch --json --interval=100ms --count=15 "$trace" >"$scratch/looks" 2>"$scratch/err"
is "$? $(wc -l <"$scratch/looks" | tr -d ' ')" '0 15' 'watch --json prints as many objects as --count says'
plain=$("$tidemark" watch --plain --count=2 --interval=200ms "$trace" | "$AWK" '{ print $2, $NF }')
is "$plain" 'PROGRAM STATE
slowly recording
slowly recording' 'watch prints a line a look with the program and its state'
said --plain --count=1 "$started" >"$scratch/out"
ok 'a process id stands for the trace that the process records' grep -q "slowly  *$started .*recording" "$scratch/said"
"$tidemark" watch --json --interval=100ms "$trace" >"$scratch/rest" 2>"$scratch/err"
is "$? $(grep -c 'the recording has ended' "$scratch/err")" '0 1' 'watch ends with the recording, and says so'
wait "$started"
if test -n "$SQLITE3"; then
    wrong=0
    while read -r look; do
        echo "$look" >"$scratch/look"
        at=$(field at_ns "$scratch/look")
        live=$(sed 's/.*"layer_id":1,"live_bytes":\([0-9]*\),"live_count":\([0-9]*\).*/\1|\2/' "$scratch/look")
        there=$("$SQLITE3" "$trace" "SELECT ifnull(sum(size), 0), count(*) FROM allocation WHERE layer_id = 1 AND status = 0 AND
            alloc_ns <= $at AND (free_ns IS NULL OR free_ns > $at)")
        test "$live" = "$there" || { wrong=$((wrong + 1)) && diag "at $at: $live, and the trace has $there"; }
    done <"$scratch/looks"
    # A call may have begun and not returned at that moment: it counts in the trace, and not yet on the page.
    ok 'live bytes and count of each look are those of the trace at the same moment' test "$wrong" -le 1
    tail -n 1 "$scratch/rest" | sed 's/.*"layers":\[\({"layer_id":1[^}]*}\).*/\1/' >"$scratch/last"
    peak=$("$tidemark" summary --json --layer=1 "$trace" 2>/dev/null |
        grep -o '"peak_bytes":[0-9]*,"peak_ns":[0-9]*' | head -n 1)
    has_words "$(cat "$scratch/last")" "${peak%%,*}" 'the peak of the last look is that of the trace'
    is "$(grep -o '"allocations":[0-9]*,"frees":[0-9]*,"failures":[0-9]*,"total_bytes":[0-9]*' "$scratch/last")" \
        "$("$SQLITE3" "$trace" "SELECT printf('\"allocations\":%d,\"frees\":%d,\"failures\":0,\"total_bytes\":%d',
            count(*), count(free_ns), sum(size)) FROM allocation WHERE layer_id = 1 AND status = 0")" \
        'allocations, frees and bytes of the last look are those of the trace'
    is "$(tail -n 1 "$scratch/rest" | grep -o '"state":"[a-z]*"')" '"state":"ended"' 'the last look says that it has ended'
else
    skip 4 'there is no sqlite3'
fi
has_words "$(said "$trace")" 'nothing is recorded there now; `tidemark summary' 'of a complete trace watch says what explains it'
ok 'watch of a complete trace is wrong use' test "$(said "$trace" | tail -c 2)" = 2
ok 'names from the trace send no escape sequences' \
    test "$(grep -c 'layer.u001b.31m' "$scratch/looks") $(grep -c "$(printf '\033')" "$scratch/looks")" = '15 0'

# Nothing of the trace is open between two looks.
start "$scratch/b.db" 30
"$tidemark" watch --plain --interval=2s "$scratch/b.db" >"$scratch/out" 2>&1 &
watching=$!
while ! test -s "$scratch/out"; do sleep 0.1; done
sleep 0.3
is "$(ls -l /proc/$watching/fd | grep -c 'b\.db$') $(ls -l /proc/$watching/fd | grep -c 'b\.db-rings$')" '0 1' \
    'between two looks the trace is not open, and its ring file is'
kill -9 "$started"
wait "$started" 2>/dev/null
wait $watching
is $? 3 'watch of a program that is killed ends with status 3'
ok 'watch of a program that is killed says what takes in what is left' \
    grep -q 'the program was killed; `tidemark summary' "$scratch/out"
ok 'the last line of a killed program has its figures' sh -c "tail -n 2 '$scratch/out' | grep -q 'MiB.*killed'"
is "$(tail -n 2 "$scratch/out" | "$AWK" '/ killed$/ { print $(NF - 4), $(NF - 3) }')" '0 0' \
    'the rates of a killed program are 0'
ls "$scratch" >"$scratch/files"
ok 'watch leaves what a killed program has left' grep -qx 'b.db-rings' "$scratch/files"
mkdir "$scratch/alone"
cp "$scratch/b.db-rings" "$scratch/alone"
"$tidemark" watch --plain "$scratch/alone" >"$scratch/out" 2>&1
ok 'watch of a killed program whose trace was removed says that its ring file cannot be recovered' \
    grep -q 'the trace is not there, and what is left in .*/b.db-rings cannot be recovered without it' "$scratch/out"

# Ring files of other versions, and damaged ones.
rings=$scratch/b.db-rings
cp "$rings" "$scratch/kept"
poke "$rings" 548 0 0 0 0
has_words "$(said --count=1 "$scratch/b.db")" 'its recorder is of an earlier version' 'a ring file without a gauge page is said to be old'
poke "$rings" 8 377
has_words "$(said --count=1 "$scratch/b.db")" 'its recorder is of a later version (ring file of format 255)' \
    'a ring file of a newer format is said to be newer'
poke "$rings" 0 101
has_words "$(said --count=1 "$scratch/b.db")" 'no ring file of a trace, or damaged' 'a file that is no ring file is said to be none'
cp "$scratch/kept" "$rings"
head -c 170000 "$scratch/kept" >"$rings"
ok 'a ring file that is cut off is no reason to crash' sh -c "'$tidemark' watch --json --count=1 '$scratch/b.db' 2>&1 |
    grep -q '\"state\":\"killed\",.*\"at_ns\":null'"
cp "$scratch/kept" "$rings"
poke "$rings" $((167936 + 4096 + 64)) 377 377 377 377
poke "$rings" $((167936 + 16384 + 64)) 377 377 377 377
ok 'counts that cannot be are not believed' sh -c "'$tidemark' watch --json --count=1 '$scratch/b.db' 2>&1 |
    grep -q '\"at_ns\":null'"
rm -f "$rings"
mkfifo "$rings"
has_words "$(said --count=1 "$scratch/b.db")" 'it is no regular file 2' 'a pipe in the place of a ring file is not opened for reading, and told'
rm -f "$rings"
mkdir "$rings"
has_words "$(said --count=1 "$scratch/b.db")" "$rings: it is a folder 2" 'a folder in the place of a ring file is told'
rmdir "$rings"

# A ring file without a header: a program that begins has it for a moment, and one that was left so is damaged.
: >"$scratch/d.db"
: >"$scratch/d.db-rings"
ok 'an empty ring file is that of a recording that begins' \
    sh -c "'$tidemark' watch --plain --count=1 '$scratch/d.db' | grep -q ' begins$'"
has_words "$(said --plain --interval=600ms --count=10 "$scratch/d.db")" 'no ring file of a trace, or damaged' \
    'a ring file that stays empty is damaged'

# A folder in which a program is recorded again under the same name.
mkdir "$scratch/again"
start "$scratch/again/keeper.db" 60
keeper=$started
start "$scratch/again/x.db" 60
"$tidemark" watch --plain --interval=100ms "$scratch/again" >"$scratch/out" 2>&1 &
watching=$!
while ! grep -q " $started .* recording$" "$scratch/out"; do sleep 0.1; done
kill -9 "$started"
wait "$started" 2>/dev/null
while ! grep -q " $started .* killed$" "$scratch/out"; do sleep 0.1; done
rm -f "$scratch"/again/x.db*
start "$scratch/again/x.db" 60
for try in $(seq 50); do
    ! grep -q " $started .* recording$" "$scratch/out" || break
    sleep 0.1
done
ok 'a folder shows a program that is recorded under the name of one that is over' \
    grep -q " $started .* recording$" "$scratch/out"
kill -9 "$keeper" "$started"
wait $watching

# 64 programs, each with 500 bytes in two allocations.
mkdir "$scratch/many"
mkfifo "$scratch/end"
for number in $(seq 64); do
    "$top_builddir/tests/recording" "$scratch/many/$number.db" <"$scratch/end" >"$scratch/ready.$number" &
    last=$!
done
exec 9>"$scratch/end"
for number in $(seq 64); do
    while ! grep -q ready "$scratch/ready.$number"; do sleep 0.1; done
done
"$tidemark" watch --plain --count=1 "$scratch/many" >"$scratch/out" 2>&1
is "$(grep -c ' 500 B  *2 .* recording$' "$scratch/out")" 64 'a folder has a line for each of 64 programs'
is "$("$tidemark" watch --json --count=1 "$scratch/many" | grep -o '"live_bytes":500,"live_count":2,"peak_bytes":600' | wc -l | tr -d ' ')" 64 \
    'each of them has what it has'

# The screen.
if command -v tmux >/dev/null 2>&1 && grep -q '^#define HAVE_NCURSESW' "$top_builddir/config.h"; then
    # The part of a path that tmux's socket may have is short.
    TMUX_TMPDIR=$scratch
    LC_ALL=C.UTF-8
    export TMUX_TMPDIR LC_ALL
    unset TMUX
    # begin COLUMNS ROWS ARGUMENT...
    begin() {
        columns=$1 rows=$2
        shift 2
        # In the scratch folder, where the reports go.
        tmux -L watch -f /dev/null new-session -d -x "$columns" -y "$rows" -c "$scratch" \
            "TERM=screen $(printf "'%s' " "$(realpath "$tidemark")" watch "$@"); echo status \$?; sleep 60"
    }
    key() {
        tmux -L watch send-keys "$@"
    }
    # shows WORDS: wait until the screen has them.
    shows() {
        for try in $(seq 400); do
            tmux -L watch capture-pane -p >"$scratch/pane"
            ! grep -q -e "$1" "$scratch/pane" || return 0
            sleep 0.1
        done
        cat "$scratch/pane"
        return 1
    }
    finish() {
        tmux -L watch kill-server 2>/dev/null
    }
    begin 80 24 "$scratch/many"
    ok 'the screen of a folder has the sum of all' shows '64 recordings, 31.25 KiB live'
    key s
    ok 'the key s sorts by the next column' shows 'live, by count'
    key Down Enter
    ok 'Enter shows one of them' shows '1 log (sim)'
    key Escape
    ok 'Escape leads back to all' shows '64 recordings'
    kill -9 "$last"
    ok 'the sum of all is without a program that is killed' shows '63 recordings, 30.76 KiB live'
    finish
    exec 9>&-
    start "$scratch/c.db" 120
    begin 80 24 "$scratch/c.db"
    shows '/layer' >/dev/null
    key C-c
    ok 'Ctrl-C leaves the screen as q does' shows 'status 0'
    finish
    begin 80 24 --interval=30s "$scratch/c.db"
    shows '/layer' >/dev/null
    shell=$(tmux -L watch display-message -p '#{pane_pid}')
    kill -TERM "$(tr -d ' ' <"/proc/$shell/task/$shell/children")"
    ok 'so does SIGTERM, where the next look is far away' shows 'status 0'
    finish
    begin 80 24 "$scratch/c.db"
    ok 'the screen shows layers with their names, and tags' shows '1 log (limit).*/layer'
    ok 'names from the trace are shown escaped' grep -q 'layer.x1b' "$scratch/pane"
    ok 'no line of the screen is longer than the terminal' test "$(wc -L <"$scratch/pane")" -le 80
    sleep 1
    # A peak that is not in the trace yet is no failure: the screen says so.
    for try in $(seq 30); do
        key p
        sleep 1
        tmux -L watch capture-pane -p | grep -q 'try again' || break
    done
    ok 'the key p shows what was live at the peak' shows 'TAG at the peak'
    key l
    ok 'the key l shows the threads of that' shows '100%.*40$\|slowly.*100%'
    key p f
    ok 'the key f freezes the screen' shows FROZEN
    tmux -L watch capture-pane -p >"$scratch/frozen"
    sleep 0.5
    tmux -L watch capture-pane -p >"$scratch/pane"
    ok 'what is frozen does not change' cmp "$scratch/frozen" "$scratch/pane"
    key f '?'
    ok 'the key ? lists the keys' shows 'freeze the picture'
    key x
    tmux -L watch resize-window -x 40 -y 10
    ok 'a terminal of 40 x 10 has a smaller picture' shows '^TAG  *LIVE SHARE'
    key w
    ok 'the key w writes a report, or says why there is none' shows 'no report: \|written: '
    rm -f "$scratch/c.db" "$scratch/c.db-wal" "$scratch/c.db-shm" "$scratch/c.db-rings"
    sleep 0.5
    ok 'a trace that vanishes does not end the screen' shows 'pid'
    kill -9 "$started"
    ok 'the screen says that the program is gone' shows 'ended\|killed'
    key q
    ok 'the key q leaves' shows 'status [03]'
    finish
else
    skip 20 'there is no tmux here, or this build has no screen'
    exec 9>&-
fi
wait 2>/dev/null
done_testing
