# Tests groups by call stacks: those that read the same are one, and --frames, --skip and --by=function say what reads
# the same; two traces are aligned by functions.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
seed=${TEST_SEED:-$(date +%s)}
diag "TEST_SEED=$seed"

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# names COMMAND TABLE...: of a table of groups the call stacks and the first figure, in the order of the call stacks.
names() {
    command=$1 table=$2
    shift 2
    case $table in
        groups) first=5 ;; # after name, callstack, id and size
        *) first=4 ;;
    esac
    "$tidemark" "$command" --format=csv --only="$table" "$@" 2>"$scratch/err" | sed 1d | cut -d, -f "2,$first" | sort
}

# refused WORDS SENTENCE ARGUMENT...
refused() {
    words=$1 sentence=$2
    shift 2
    "$tidemark" "$@" >"$scratch/out" 2>"$scratch/err"
    is "$? $(head -n 1 "$scratch/err")" "2 $words" "$sentence"
}

# Four call stacks, all live at the peak: 1 and 2 read the same, 3 has another line in take, 4 another caller of take.
# Frames 1 and 5 are two calls in one line, at two addresses.
frames="
    INSERT INTO module VALUES (1, '/usr/lib/libown.so', 'aa', 4096, 65536);
    INSERT INTO frame VALUES (1, 100, 1, 'take', '/src/a.c', 10), (2, 200, 1, 'wrap', '/src/w.c', 5),
        (3, 300, 1, 'main', '/src/m.c', 7), (4, 400, 1, 'take', '/src/a.c', 12), (5, 108, 1, 'take', '/src/a.c', 10),
        (6, 600, 1, 'other', '/src/m.c', 3), (7, 5000, 1, NULL, NULL, NULL);
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 2), (1, 2, 3), (2, 0, 5), (2, 1, 2), (2, 2, 3),
        (3, 0, 4), (3, 1, 2), (3, 2, 3), (4, 0, 1), (4, 1, 2), (4, 2, 6), (5, 0, 7);"
make_trace "$trace" "$frames
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL), (3, 1, 400, 30, NULL), (4, 1, 800, 40, NULL),
        (5, 1, 1600, 50, NULL);
    UPDATE allocation SET callstack_id = allocation_id;"

plan 42

wrapped='wrap (/src/w.c:5)'
lines="libown.so+0x388,1600
take (/src/a.c:10) < $wrapped < main (/src/m.c:7),300
take (/src/a.c:10) < $wrapped < other (/src/m.c:3),800
take (/src/a.c:12) < $wrapped < main (/src/m.c:7),400"
is "$(names peak groups "$trace")" "$lines" 'peak: call stacks that read the same are one group'
is "$(names leaks groups "$trace")" "$lines" 'leaks: call stacks that read the same are one group'
is "$(names top groups "$trace")" "$(echo "$lines" | sed 's/,300$/,2/; s/,[0-9]*00$/,1/')" \
    'top: call stacks that read the same are one group'
is "$(names peak groups --by=function "$trace")" 'libown.so+0x388,1600
take (a.c) < wrap (w.c) < main (m.c),700
take (a.c) < wrap (w.c) < other (m.c),800' '--by=function groups by functions, without lines and folders'
is "$(names top groups --by=function "$trace")" 'libown.so+0x388,1
take (a.c) < wrap (w.c) < main (m.c),3
take (a.c) < wrap (w.c) < other (m.c),1' 'top --by=function groups by functions'
is "$(names peak groups --frames=1 "$trace")" 'libown.so+0x388,1600
take (/src/a.c:10),1100
take (/src/a.c:12),400' '--frames=1 groups by the innermost frame'
is "$(names peak groups --frames=9 "$trace")" "$lines" '--frames with more frames than there are changes nothing'
is "$(names peak groups --frames=0 "$trace")" "$lines" '--frames=0 counts all frames'
is "$(names peak groups --frames=1 --by=function "$trace")" 'libown.so+0x388,1600
take (a.c),1500' '--frames and --by=function go together'
is "$(names peak groups --skip=take "$trace")" "libown.so+0x388,1600
$wrapped < main (/src/m.c:7),700
$wrapped < other (/src/m.c:3),800" '--skip leaves a function out'
is "$(names leaks groups --skip=take --skip='w*' "$trace")" 'libown.so+0x388,1600
main (/src/m.c:7),700
other (/src/m.c:3),800' '--skip may be repeated, and takes patterns'
is "$(names peak groups --skip='*/a.c:1[0-9])' --frames=1 "$trace")" "libown.so+0x388,1600
$wrapped,1500" '--skip fits files and lines, and --frames counts what is left'
is "$(names peak groups --skip='libown.so*' --by=function "$trace")" '(left out),1600
take (a.c) < wrap (w.c) < main (m.c),700
take (a.c) < wrap (w.c) < other (m.c),800' 'a call stack of which no frame is left has a name of its own'
is "$(names peak groups --callstack=other --frames=1 "$trace")" 'take (/src/a.c:10),800' \
    '--callstack looks at all frames, also at those that do not count'
is "$(names peak groups --by=function --blocks=9 "$trace" && "$tidemark" peak --by=function --blocks=1 --only=blocks \
    --format=csv "$trace" | sed 1d | cut -d, -f 9)" 'libown.so+0x388,1600
take (a.c) < wrap (w.c) < main (m.c),700
take (a.c) < wrap (w.c) < other (m.c),800
libown.so+0x388' 'a single allocation keeps its whole call stack'

# ids COMMAND OPTION...: the first frame of each call stack, and its id.
ids() {
    "$tidemark" "$@" --json "$trace" | tr '{' '\n' | sed -n 's/^"name":null,"callstack":\["\([^"]*\)".*"id":\([^,]*\),.*/\1 \2/p' |
        sort | tr '\n' ','
}
is "$(ids peak)" 'libown.so+0x388 5,take (/src/a.c:10) 4,take (/src/a.c:10) null,take (/src/a.c:12) 3,' \
    'a group of call stacks that read the same has no id, and those of one call stack have its id'
is "$(ids top --by=function)|$(ids leaks --frames=1)" \
    'libown.so+0x388 5,take (a.c) 4,take (a.c) null,|libown.so+0x388 5,take (/src/a.c:10) null,take (/src/a.c:12) 3,' \
    'groups by functions and by some frames have an id where no other call stack reads the same'

# Exports.
export_to() {
    "$tidemark" export "$@" "$trace" 2>"$scratch/err" | sort
}
is "$(export_to -f collapsed)" 'libown.so+0x388 1600
main (/src/m.c:7);wrap (/src/w.c:5);take (/src/a.c:10) 300
main (/src/m.c:7);wrap (/src/w.c:5);take (/src/a.c:12) 400
other (/src/m.c:3);wrap (/src/w.c:5);take (/src/a.c:10) 800' 'collapsed has a line for call stacks that read the same'
is "$(export_to -f collapsed --by=function)" 'libown.so+0x388 1600
main (/src/m.c);wrap (/src/w.c);take (/src/a.c) 700
other (/src/m.c);wrap (/src/w.c);take (/src/a.c) 800' 'collapsed --by=function has frames without lines'
is "$(export_to -f collapsed --frames=2)" 'libown.so+0x388 1600
wrap (/src/w.c:5);take (/src/a.c:10) 1100
wrap (/src/w.c:5);take (/src/a.c:12) 400' 'collapsed --frames has the innermost frames'
is "$(export_to -f collapsed --skip=wrap --skip='libown*')" '(left out) 1600
main (/src/m.c:7);take (/src/a.c:10) 300
main (/src/m.c:7);take (/src/a.c:12) 400
other (/src/m.c:3);take (/src/a.c:10) 800' 'collapsed --skip leaves frames out'
is "$("$tidemark" export -f speedscope --by=function "$trace" | grep -c '"line"')" 0 \
    'speedscope --by=function has no lines'
is "$("$tidemark" export -f speedscope "$trace" | tr '{' '\n' | grep -c '"weights":\[300,400,800,1600\]')" 3 \
    'speedscope has a sample for call stacks that read the same'

# Two builds: in the second, two lines were inserted above the calls in take.
other=$scratch/other.db
make_trace "$other" "$(echo "$frames" | sed "s/'.src.a.c', 1\\([02]\\)/'\\/build\\/a.c', 1\\1 + 2/g")
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL), (3, 1, 400, 30, NULL), (4, 1, 800, 40, NULL),
        (5, 1, 1600, 50, NULL);
    UPDATE allocation SET callstack_id = allocation_id;"
is "$(names diff callstacks "$trace" "$other")" '' 'diff: inserted lines and other folders change nothing'
is "$(names diff callstacks --by=callstack "$trace" "$trace")" '' 'diff --by=callstack: a trace is as itself'
sed_lines() {
    "$tidemark" diff --by=callstack --only=callstacks --format=csv "$1" "$2" | sed 1d
}
is "$(sed_lines "$trace" "$other")" '' 'diff --by=callstack: inserted lines change nothing'
"$top_builddir/tests/make-trace" "$scratch/more.db" "$(echo "$frames" | sed "s/'.src.a.c', 1\\([02]\\)/'\\/src\\/a.c', 1\\1 + 2/g")
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL), (3, 1, 450, 30, NULL), (4, 1, 800, 40, NULL),
        (5, 1, 1600, 50, NULL);
    UPDATE allocation SET callstack_id = allocation_id;" || exit 99
is "$(names diff callstacks "$trace" "$scratch/more.db" | cut -d, -f 1)" 'take (a.c) < wrap (w.c) < main (m.c)' \
    'diff names the functions that changed, although their lines did, too'
is "$(sed_lines "$trace" "$scratch/more.db" | cut -d, -f 2,4-6)" \
    "take (/src/a.c:14) < $wrapped < main (/src/m.c:7),50,400,450" \
    'diff --by=callstack aligns the lines of the same functions in their order'
"$tidemark" check --baseline="$trace" "$scratch/more.db" >"$scratch/out"
is "$? $(grep -c '^  call stack ' "$scratch/out")" '1 1' 'check --baseline names the call stack that changed alone'
has_words "$(cat "$scratch/out")" 'call stack take (a.c) < wrap (w.c) < ...: +50 B at the peak, from 700 B to 750 B' \
    'check --baseline aligns call stacks by functions'

# Wrong use.
refused "$trace: no frame of a call stack fits \"nothing\"" 'a pattern that no frame fits is refused' \
    peak --skip=take --skip=nothing "$trace"
refused "$trace: no frame of a call stack fits \"nothing\"" 'a pattern that no frame of two traces fits is refused' \
    diff --skip=nothing "$trace" "$other"
refused 'tidemark peak: --frames is for groups by callstack or function' '--frames of groups by tags is refused' \
    peak --frames=2 --by=tag "$trace"
refused 'tidemark diff: --skip is for groups by callstack, function or file' '--skip of groups by sizes is refused' \
    diff --skip=take --by=size "$trace" "$trace"
refused 'tidemark top: --frames: "two" is not a number' '--frames takes a number' top --frames=two "$trace"
refused 'tidemark export: --by, --frames and --skip are for formats that group by call stacks' \
    'a format that does not group refuses --frames' export -f csv --frames=2 "$trace"
make_trace "$scratch/none.db" "INSERT INTO life VALUES (1, 1, 100, 10, NULL);"
refused "$scratch/none.db: it has no call stacks for --frames" 'a trace without call stacks refuses --frames' \
    peak --frames=2 "$scratch/none.db"
"$tidemark" diff --skip=take "$scratch/none.db" "$trace" >"$scratch/out" 2>"$scratch/err"
is "$? $(cat "$scratch/err")" '1 ' 'a pattern that a frame of the second trace fits is taken'

# Random call stacks over few frames, so that many read the same, compared with SQL.
make_trace "$trace" "
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 40) INSERT INTO frame
        SELECT n, 1000 + n, NULL, 'f' || ((n * 7 + $seed) % 5), '/d' || (n % 3) || '/file' || (n * 3 % 2), n % 4 FROM n;
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 400),
        p(p) AS (SELECT 0 UNION ALL SELECT p + 1 FROM p WHERE p < 4)
        INSERT INTO callstack SELECT n, p, 1 + (n * 7919 + p * 104729 + ($seed + p) * n) % 40 FROM n, p
            WHERE p <= (n * 31 + $seed) % 5;
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1000)
        INSERT INTO life SELECT n, 1, 1 + (n * 104729 + $seed) % 5000, n, NULL FROM n;
    UPDATE allocation SET callstack_id = 1 + allocation_id * 17 % 400;"
# same SENTENCE TEXT PLACE CONDITION OPTION...: compare the groups with those of the texts of the frames that fit a
# condition and then have this place.
same() {
    sentence=$1 text=$2 where=$3 condition=$4
    shift 4
    "$tidemark" query --csv "$trace" "
        WITH counted AS (SELECT callstack_id, position, $text AS text,
            row_number() OVER (PARTITION BY callstack_id ORDER BY position) AS place
            FROM callstack JOIN frame USING (frame_id) WHERE $condition),
        names AS (SELECT callstack_id, group_concat(text, ' < ') AS name FROM
            (SELECT * FROM counted WHERE $where ORDER BY callstack_id, position) GROUP BY callstack_id)
        SELECT ifnull(name, '(left out)'), sum(size) FROM allocation LEFT JOIN names USING (callstack_id) GROUP BY 1" |
        sed 1d | sort >"$scratch/wanted"
    is "$(names peak groups --limit=0 "$@" "$trace")" "$(cat "$scratch/wanted")" "$sentence"
}
line="function || ' (' || file || iif(line = 0, '', ':' || line) || ')'"
file="function || ' (' || substr(file, 5) || ')'"
same 'random call stacks are grouped as by SQL' "$line" 1 1
same 'random call stacks are grouped by functions as by SQL' "$file" 1 1 --by=function
same 'the two innermost frames are grouped as by SQL' "$line" 'place <= 2' 1 --frames=2
same 'what is not left out is grouped as by SQL' "$file" 'place <= 2' "function <> 'f1' AND line <> 3" \
    --by=function --frames=2 --skip=f1 --skip='*:3)'
done_testing
