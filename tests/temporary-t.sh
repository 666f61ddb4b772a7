# Tests what export, import and recover leave when they are interrupted or killed.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}

# appears NAME: wait until there is a temporary file of this output, and set $made to it.
appears() {
    made=
    for tap_try in $(seq 2000); do
        for made in "$1"?*; do
            test -e "$made" && test "$made" != "$1-wal" && return 0
        done
        sleep 0.005
    done
    return 1
}

# interrupted SIGNAL STATUS: whether an import that waits for its input removes what it has begun.
interrupted() {
    env "--default-signal=$1" "$tidemark" import -o "$out" - <"$scratch/in" >"$scratch/said" 2>&1 &
    tap_process=$!
    exec 3>"$scratch/in"
    appears "$out"
    kill -s "$1" "$tap_process"
    wait "$tap_process" 2>/dev/null
    is "$? $(ls "$scratch" | grep -c '^out')" "$2 0" "an import that gets SIG$1 ends by it, and leaves no file"
    exec 3>&-
}

plan 14

mkfifo "$scratch/in"
out=$scratch/out.db
printf 'Thread,Time,Action,Pointer,Size,Stream\n1,1,allocate,0x10,100,0\n1,2,free,0x10,100,0\n' >"$scratch/one.csv"
if env --default-signal=INT true 2>/dev/null; then
    interrupted INT 130
    interrupted TERM 143
    interrupted HUP 129
else
    skip 3 'env cannot reset signals here'
fi
(trap '' HUP; exec "$tidemark" import -o "$out" - <"$scratch/in" >"$scratch/said" 2>&1) &
process=$!
exec 3>"$scratch/in"
appears "$out"
kill -s HUP "$process"
cat "$scratch/one.csv" >&3
exec 3>&-
wait "$process"
is "$? $(ls "$scratch" | grep '^out')" '0 out.db' 'an import that ignores SIGHUP, as under nohup, goes on'
rm "$out"

"$tidemark" import -o "$out" - <"$scratch/in" >"$scratch/said" 2>&1 &
killed=$!
exec 3>"$scratch/in"
appears "$out"
kill -s KILL "$killed"
wait "$killed" 2>/dev/null
exec 3>&-
ok 'an import that is killed leaves its temporary file' test -e "$made"
touch "$out.tidemark-import-notes" "$out.tidemark-export-1" "$scratch/another.db.tidemark-import-1"
mkfifo "$out.tidemark-import-77"
"$tidemark" import -o "$out" - <"$scratch/in" >"$scratch/said" 2>&1 &
running=$!
exec 3>"$scratch/in"
appears "$out.tidemark-import-$running"
for i in $(seq 1000); do
    test -e "$out.tidemark-import-$running" && break
    sleep 0.005
done
ok 'the next import to the same file has one of its own' test -e "$out.tidemark-import-$running"
ok 'the next import to the same file removes what the killed one has left' test ! -e "$out.tidemark-import-$killed"
"$tidemark" import -o "$out" "$scratch/one.csv" >/dev/null 2>&1
is $? 0 'a third import to the same file succeeds meanwhile'
ok 'the third import leaves the file of the one that runs' test -e "$out.tidemark-import-$running"
cat "$scratch/one.csv" >&3
exec 3>&-
wait "$running"
is $? 2 'the import that ends last does not replace the trace'
is "$(cd "$scratch" && ls -d out* another*)" 'another.db.tidemark-import-1
out.db
out.db.tidemark-export-1
out.db.tidemark-import-77
out.db.tidemark-import-notes' 'files of other names, commands and outputs stay, and so does what is no regular file'

gzip -dc "$top_srcdir/tests/data/maskrcnn_infer.csv.gz" >"$scratch/long.csv"
"$tidemark" import -o "$scratch/long.db" "$scratch/long.csv" >/dev/null 2>&1
text=$scratch/text.csv
"$tidemark" export -o "$text" "$scratch/long.db" 2>"$scratch/said" &
process=$!
appears "$text"
kill -s TERM "$process"
wait "$process" 2>/dev/null
is "$? $(ls "$scratch" | grep -c '^text')" '143 0' 'an export that gets SIGTERM ends by it, and leaves no file'
"$tidemark" export -o "$text" "$scratch/long.db" 2>"$scratch/said" &
process=$!
appears "$text"
kill -s KILL "$process"
wait "$process" 2>/dev/null
ok 'an export that is killed leaves its temporary file' test -e "$made"
"$tidemark" export -o "$text" "$scratch/long.db"
is "$? $(ls "$scratch" | grep '^text')" '0 text.csv' 'the next export to the same file removes what the killed one has left'
done_testing
