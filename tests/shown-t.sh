#!/bin/sh
# Tests that names of a trace with characters that steer a terminal, turn text around or show nothing are escaped
# wherever a command shows them.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
top_srcdir=$(cd "$top_srcdir" && pwd)
top_builddir=$(cd "$top_builddir" && pwd)
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
LC_ALL=C.UTF-8
export LC_ALL

# One of each class: an override of direction, an isolate, a letter mark, a zero-width space, separators of lines and
# paragraphs, a byte order mark, a tag, a private character, a control of C0 and one of C1, and two line ends.
hidden='x'"$(printf '\342\200\256\342\201\246\330\234\342\200\213\342\200\250\342\200\251\357\273\277')"
hidden=$hidden"$(printf '\363\240\201\201\356\200\200\033[1m\302\2332J\ny\rz')"
shown='x\u202e\u2066\u061c\u200b\u2028\u2029\ufeff\U000e0041\ue000\x1b[1m\u009b2J\x0ay\x0dz'

# The raw bytes of any of them.
raw="$(printf '\342\200\256|\342\201\246|\330\234|\342\200\213|\342\200\250|\342\200\251|\357\273\277')"
raw=$raw"$(printf '|\363\240\201\201|\356\200\200|\033|\302\233|\r|^y')"

# clean SENTENCE COMMAND...: none of them is in what the command writes.
clean() {
    sentence=$1
    shift
    "$@" >"$scratch/out" 2>&1 </dev/null
    LC_ALL=C grep -aE "$raw" "$scratch/out" >"$scratch/raw"
    ok "$sentence" test ! -s "$scratch/raw" || head -n 3 "$scratch/raw" | od -c | head -n 20 | sed 's/^/# /'
}

# each COMMAND...: collect what the command writes, and one of the characters where it is refused, so that this is seen.
each() {
    "$@" >>"$scratch/all" 2>&1 </dev/null
    test $? -ne 2 || printf '\033 refused: %s\n' "$*" >>"$scratch/all"
    echo >>"$scratch/all"
}

plan 20

name="'$(printf %s "$hidden" | sed "s/'/''/g")'"
"$top_builddir/tests/make-trace" "$trace" "
    UPDATE meta SET value = $name WHERE key IN ('command', 'stack', 'hostname');
    INSERT INTO meta VALUES ('failure', $name), ('program', $name);
    UPDATE thread SET name = $name;
    UPDATE layer SET config = $name;
    INSERT INTO tag VALUES (1, NULL, $name), (2, 1, $name);
    INSERT INTO module VALUES (1, $name, '', 4096, 4096);
    INSERT INTO frame VALUES (1, 4100, 1, $name, $name, 7), (2, 4104, 1, NULL, NULL, NULL), (3, 4108, 1, 'main', '/a/b.c', 1);
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 2), (1, 2, 3);
    INSERT INTO status VALUES (4, $name, $name);
    INSERT INTO mark VALUES (15, 1, 'mark', $name, NULL), (16, 1, $name, $name, 1);
    INSERT INTO loss VALUES (1, $name, 1);
    INSERT INTO life VALUES (1, 1, 100, 10, 50), (2, 1, 200, 20, NULL);
    INSERT INTO refused VALUES (3, 1, 300, 30);
    INSERT INTO unmatched_free VALUES (40, 1, 4096, 1, 1, 1);
    UPDATE allocation SET tag_id = 2, callstack_id = 1;
    CREATE TABLE \"$hidden\"(\"$hidden\" INTEGER);
    CREATE VIEW odd AS SELECT 1 AS \"$hidden\", $name AS other" || exit 99

cd "$scratch" || exit 99
for command in summary peak fragmentation failures leaks timeline histogram top layers 'diff t.db' 'check --no-leaks' \
    recover; do
    : >all
    for format in table md csv json jsonl; do
        test "$command" = recover && test "$format" != table && continue
        each "$tidemark" $command ${format:+$(case $command in recover | check*) ;; *) echo --format=$format ;; esac)} t.db
    done
    clean "${command%% *} shows none of them, in no format" cat all
done
: >all
for format in csv jsonl chrome collapsed speedscope; do
    each "$tidemark" export --format=$format t.db
done
"$tidemark" export --format=pprof -o pprof.gz t.db 2>/dev/null
# Lengths of fields may look like controls.
gzip -dc pprof.gz | tr -d '\r\033' | grep -aF '\x1b[1m' >>all || printf '\033 no pprof\n' >>all
clean 'no export of text has one of them' cat all
clean 'a table of a query has none of them, in its titles neither' "$tidemark" query t.db 'SELECT * FROM odd'
cp t.db "$hidden.db"
clean 'a message with the name of a file has none of them' "$tidemark" summary "$hidden.none"
clean 'a message of the library with the name of a file has none of them' "$tidemark" replay "--stack=limit($hidden) | host" t.db
clean 'a filter that nothing fits is named without them' "$tidemark" summary "--tag=$hidden/none" t.db
has_words "$("$tidemark" summary "$hidden.db" 2>&1)" "$shown" 'they are shown as escapes'
if test -n "$SQLITE3"; then
    "$tidemark" query --json t.db 'SELECT name FROM tag LIMIT 1' >out
    is "$("$SQLITE3" :memory: "SELECT json_extract(readfile('out'), '\$[0].name') = $name")" 1 \
        'in JSON the escapes stand for the same characters'
else
    skip 1 'no sqlite3'
fi
is "$(cd "$top_srcdir" && grep -l 'stderr' viewer/*/*.c | tr '\n' ' ')" \
    'viewer/base/message.c viewer/base/progress.c viewer/commands/main.c ' \
    'no file of the command but those for messages, progress and usage writes to standard error'
done_testing
