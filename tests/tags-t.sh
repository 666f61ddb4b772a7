# Tests groups by the tree of tags (--depth) and by source files (--by=file), in tables, exports, filters and checks.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
trace=$scratch/t.db
seed=${TEST_SEED:-$(date +%s)}
diag "TEST_SEED=$seed"

make_trace() {
    "$top_builddir/tests/make-trace" "$@" || exit 99
}

# names COMMAND TABLE OPTION...: the names and the first figure of a table of groups, in the order of the names.
names() {
    command=$1 table=$2
    shift 2
    case $table in
        groups) first=5 ;; # after name, callstack, id and size
        *) first=4 ;;
    esac
    "$tidemark" "$command" --format=csv --only="$table" "$@" 2>"$scratch/err" | sed 1d | cut -d, -f "1,$first" | sort
}

# refused WORDS SENTENCE ARGUMENT...
refused() {
    words=$1 sentence=$2
    shift 2
    "$tidemark" "$@" >"$scratch/out" 2>"$scratch/err"
    is "$? $(head -n 1 "$scratch/err")" "2 $words" "$sentence"
}

# The modules of a model: in one name, as tags in tags, and as tags that name all that is around them. Other names with
# dots: a version, a file and a size.
tags="
    INSERT INTO tag VALUES (1, 0, 'forward/net.h.0.attn'), (2, 0, 'forward/net.h.0.mlp'), (3, 0, 'forward/net.h.1.attn'),
        (4, 0, 'forward'), (5, 4, 'net'), (6, 5, 'h'), (7, 6, '10'),
        (8, 0, 'backward/net'), (9, 8, 'backward/net.h'), (10, 9, 'backward/net.h.1'),
        (11, 0, 'load v1.5'), (12, 0, 'train.py:10'), (13, 0, '1.5 GB'), (14, 4, 'network'), (15, 0, '//odd//path/');"
lives="
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 15)
        INSERT INTO life SELECT n, 1, 1 << n, n, NULL FROM n;
    UPDATE allocation SET tag_id = allocation_id;
    INSERT INTO life VALUES (16, 1, 65536, 99, NULL);"
make_trace "$trace" "$tags $lives"

plan 45

is "$(names peak groups --by=tag --depth=1 "$trace")" '(none),65536
1.5 GB,8192
backward,1792
forward,16638
load v1.5,2048
odd,32768
train.py:10,4096' '--depth=1 sums up what has the same first level, and cuts no name that is no path of a module'
is "$(names peak groups --depth=2 --tag='*ward*' "$trace")" 'backward/net,1792
forward,16
forward/net,238
forward/network,16384' '--depth=2 sums up two levels, groups by tag unasked, and tells a module from one whose name is longer'
is "$(names leaks groups --depth=4 --tag='*ward*' "$trace")" 'backward/net,256
backward/net.h,512
backward/net.h.1,1024
forward,16
forward/net,32
forward/net.h.0,6
forward/net.h.1,8
forward/net/h,64
forward/net/h/10,128
forward/network,16384' 'leaks --depth: tags inside tags are levels, and one that repeats what is around it is no deeper'
is "$(names top groups --depth=3 --tag=forward "$trace")" 'forward,1
forward/net,1
forward/net.h,3
forward/net/h,2
forward/network,1' 'top --depth groups by the tree of tags'
is "$(names peak groups --by=tag --depth=0 --tag='backward*' "$trace")" 'backward/net,256
backward/net/backward/net.h,512
backward/net/backward/net.h/backward/net.h.1,1024' '--depth=0 groups by each tag, as without it'
is "$(names peak groups --by=tag --depth=900 --tag='*odd*' "$trace")" 'odd/path,32768' \
    'a depth beyond that of the tree cuts nothing, and empty levels are none'
is "$(names peak groups --depth=2 --tag=forward/net "$trace")" 'forward/net,238' \
    '--tag takes a level of the tree, and what lies below it'
is "$(names peak groups --depth=9 --tag=forward/net.h.0 "$trace")" 'forward/net.h.0.attn,2
forward/net.h.0.mlp,4' '--tag takes a level that is parted by a dot'
is "$(names peak groups --depth=9 --tag=backward/net.h "$trace")" 'backward/net.h,512
backward/net.h.1,1024' '--tag takes a level as --depth names it, where tags repeat what is around them'
refused "$trace: no tag \"forward/ne\"; did you mean \"forward/net.h.0.attn\"?" '--tag with half a level selects nothing' \
    peak --tag=forward/ne "$trace"

# ids OPTION...: names with their ids.
ids() {
    "$tidemark" peak --json "$@" "$trace" | tr '{' '\n' | sed -n 's/^"name":"\([^"]*\)","callstack":null,"id":\([^,]*\),.*/\1 \2/p' |
        sort | tr '\n' ','
}
is "$(ids --depth=2 --tag='*ward*')" 'backward/net null,forward 4,forward/net null,forward/network 14,' \
    'a group of several tags, or of one that was cut off, has no id'
is "$(ids --depth=1 --tag='*odd*')" 'odd null,' 'a tag that alone was cut off lends its id to nobody'
is "$("$tidemark" peak --depth=1 "$trace" | sed -n 's/^TAG  *BYTES.*/TAG/p; /^Without/p')" \
    'TAG
Without tag (none) the peak would have been 64.00 KiB, 50.0% lower.' 'the peak without a subtree is told'

# Exports: a frame for each level.
export_to() {
    "$tidemark" export "$@" 2>"$scratch/err" | sort
}
is "$(export_to -f collapsed --tag='*ward*' "$trace")" 'backward;net 256
backward;net;h 512
backward;net;h;1 1024
forward 16
forward;net 32
forward;net;h 64
forward;net;h;0;attn 2
forward;net;h;0;mlp 4
forward;net;h;10 128
forward;net;h;1;attn 8
forward;network 16384' 'collapsed has a frame for each level of a tag'
is "$(export_to -f collapsed --depth=3 --tag='*ward*' "$trace")" 'backward;net 256
backward;net;h 1536
forward 16
forward;net 32
forward;net;h 14
forward;net;h 192
forward;network 16384' 'collapsed --depth cuts the tree'

# Call stacks as of Python: whole paths, equal names in two folders; a native frame without a file.
frames="
    INSERT INTO module VALUES (1, '/usr/lib/libtorch.so', 'aa', 4096, 65536);
    INSERT INTO frame VALUES (1, 100, 1, NULL, NULL, NULL), (2, 200, NULL, 'forward', '/app/model.py', 5),
        (3, 300, NULL, 'forward', '/lib/nn/model.py', 7), (4, 400, NULL, 'step', '/app/train.py', 12),
        (5, 500, NULL, 'main', '/app/train.py', 40), (6, 600, NULL, 'block', '/app/model.py', 9),
        (7, 700, NULL, NULL, NULL, NULL);
    INSERT INTO callstack VALUES (1, 0, 1), (1, 1, 3), (1, 2, 2), (1, 3, 4), (1, 4, 5), (2, 0, 2), (2, 1, 6), (2, 2, 4),
        (2, 3, 5), (3, 0, 6), (3, 1, 4), (3, 2, 5), (4, 0, 1), (5, 0, 7);"
stacks=$scratch/stacks.db
make_trace "$stacks" "$tags $frames
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL), (3, 1, 400, 30, NULL), (4, 1, 800, 40, NULL),
        (5, 1, 1600, 50, NULL), (6, 1, 3200, 60, NULL);
    UPDATE allocation SET callstack_id = iif(allocation_id = 6, 0, allocation_id), tag_id = 1 + allocation_id % 3;"
is "$(names peak groups --by=file "$stacks")" '(none),3200
(unknown),1600
/app/model.py,600
/lib/nn/model.py,100
libtorch.so,800' '--by=file groups by the file of the innermost frame that has one, or else by its module'
is "$(names leaks groups --by=file --skip='*(/lib/*' --skip='libtorch*' "$stacks")" '(left out),800
(none),3200
(unknown),1600
/app/model.py,700' '--by=file and --skip go together: files of libraries can be left out'
is "$(names top groups --by=file "$stacks" | grep model)" '/app/model.py,2
/lib/nn/model.py,1' 'top --by=file tells files of one name in two folders apart'
is "$("$tidemark" peak --by=function --frames=1 --skip='libtorch*' --only=groups --format=csv "$stacks" | sed 1d |
    cut -d, -f 2,5 | sort)" '(left out),800
,3200
0x2bc,1600
block (model.py),400
forward (model.py),300' '--by=function --frames=1 groups by one function'
is "$("$tidemark" peak --by=file --json "$stacks" | tr '{' '\n' | sed -n 's/^"name":"\(.app[^"]*\)","callstack":null,"id":\([^,]*\),.*/\1 \2/p')" \
    '/app/model.py null' 'a file is the name of its group, which has no id'
is "$(export_to -f collapsed --by=file "$stacks")" '(unknown) 1600
/app/train.py;/app/model.py 600
/app/train.py;/app/model.py;/lib/nn/model.py;libtorch.so 100
forward;net;h;0;attn 3200
libtorch.so 800' 'collapsed --by=file has the files of each call stack, each once, and a line for those that are the same'
is "$(export_to -f collapsed --by=tag "$stacks")" 'forward;net;h;0;attn 3600
forward;net;h;0;mlp 900
forward;net;h;1;attn 1800' 'collapsed --by=tag has tags alone, also where there are call stacks'
is "$(export_to -f collapsed --depth=2 "$stacks")" 'forward;net 6300' 'an export with --depth is by tag'
is "$("$tidemark" export -f speedscope --by=file "$stacks" | grep -c '"weights":\[100,600,800,1600,3200\]')" 3 \
    'speedscope --by=file has a sample for each list of files'
"$tidemark" export -f pprof --by=tag "$stacks" >"$scratch/pprof" && gzip -dc "$scratch/pprof" | tr -c 'a-z' '\n' |
    grep -c -x -e attn -e mlp >"$scratch/out"
is "$(cat "$scratch/out")" 2 'pprof --by=tag names each level once'

# Two traces.
other=$scratch/other.db
make_trace "$other" "$(echo "$tags" | sed 's/net.h.0.attn/net.h.0.attention/') $frames
    INSERT INTO life VALUES (1, 1, 150, 10, NULL), (2, 1, 200, 20, NULL), (3, 1, 400, 30, NULL), (4, 1, 800, 40, NULL),
        (5, 1, 1600, 50, NULL), (6, 1, 3300, 60, NULL);
    UPDATE allocation SET callstack_id = iif(allocation_id = 6, 0, allocation_id), tag_id = 1 + allocation_id % 3;"
is "$(names diff tags --by=tag --depth=3 "$stacks" "$other")" 'forward/net.h,150' \
    'diff --depth compares the sums of subtrees, so that a module of another name changes nothing'
is "$(names diff files --by=file "$stacks" "$other")" '(none),100
/lib/nn/model.py,50' 'diff --by=file compares files'
has_words "$("$tidemark" diff --by=tag --json "$stacks" "$other")" '"files":[]' \
    'the files of diff are an empty table where they are not compared'
has_words "$("$tidemark" check --max-peak=1KiB --depth=2 "$stacks")" 'tag forward/net has 6.15 KiB of it (100.0%)' \
    'check names subtrees of tags'
has_words "$("$tidemark" check --baseline="$stacks" --by=tag --depth=3 "$other")" 'tag forward/net.h: +150 B at the peak' \
    'check --baseline compares subtrees of tags'

# Wrong use.
refused 'tidemark peak: --depth is for groups by tag' '--depth of groups by sizes is refused' \
    peak --by=size --depth=2 "$trace"
refused 'tidemark diff: --depth is for groups by tag' 'diff --depth of groups by files is refused' \
    diff --by=file --depth=2 "$trace" "$trace"
refused 'tidemark top: --frames is for groups by callstack or function' '--frames of groups by files is refused' \
    top --by=file --frames=2 "$stacks"
refused 'tidemark peak: --skip is for groups by callstack, function or file' '--skip of groups by tags is refused' \
    peak --by=tag --skip=main "$stacks"
refused 'tidemark peak: --depth: "deep" is not a number' '--depth takes a number' peak --depth=deep "$trace"
refused 'tidemark check: --depth is for --max-peak, --max-allocations, --no-leaks and --baseline' \
    'check refuses --depth where nothing is grouped' check --max-failures=0 --depth=2 "$trace"
refused 'tidemark export: --depth is for formats that group by tags' 'a format that does not group refuses --depth' \
    export -f csv --depth=2 "$trace"
refused 'tidemark export: --depth is for --by=tag' 'an export by files refuses --depth' \
    export -f collapsed --by=file --depth=2 "$trace"
make_trace "$scratch/none.db" "INSERT INTO life VALUES (1, 1, 100, 10, NULL);"
refused "$scratch/none.db: it has no tags for --depth" 'a trace without tags refuses --depth' \
    peak --depth=2 "$scratch/none.db"

# A chain of tags that is deeper than the levels that are kept, in names of many levels, ends somewhere.
make_trace "$scratch/deep.db" "
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 100)
        INSERT INTO tag SELECT n, n - 1, 'a.b.c.d/e.f.g.h' || n FROM n;
    INSERT INTO tag VALUES (101, 102, 'x'), (102, 101, 'y');
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 200, 20, NULL);
    UPDATE allocation SET tag_id = 99 + allocation_id;"
is "$(names peak groups --by=tag --depth=3 "$scratch/deep.db" | tr '\n' ' ')$?" '(a circle of tags)/y/x,200 a.b.c,100 0' \
    'tags in many tags, or in a circle, have levels, too'

# Random trees of tags, compared with SQL.
make_trace "$trace" "
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 300)
        INSERT INTO tag SELECT n, (n * 7919 + $seed) % n, substr('abcdefgh', 1 + (n * 31 + $seed) % 3, 1) FROM n;
    WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 2000)
        INSERT INTO life SELECT n, 1, 1 + (n * 104729 + $seed) % 5000, n, NULL FROM n;
    UPDATE allocation SET tag_id = 1 + allocation_id * 17 % 300;"
wanted() {
    "$tidemark" query --csv "$trace" "
        WITH RECURSIVE way(tag_id, path, levels) AS (
            SELECT tag_id, name, 1 FROM tag WHERE parent_tag_id = 0
            UNION ALL SELECT tag.tag_id, iif(levels < $1, path || '/' || name, path), levels + 1
            FROM tag JOIN way ON tag.parent_tag_id = way.tag_id)
        SELECT path, sum(size) FROM allocation JOIN way USING (tag_id) GROUP BY 1" | sed 1d | sort
}
bad=0
for depth in 1 2 3 5; do
    test "$(names peak groups --limit=0 --depth=$depth "$trace")" = "$(wanted $depth)" || bad=$depth
done
is $bad 0 'random trees of tags have the sums that SQL finds, at four depths'
# Tags in tags, 300 and 3000 of them, and two that lie in each other.
deep="WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 3000)
        INSERT INTO tag SELECT n, n - 1, 'd' || n FROM n;
    INSERT INTO tag VALUES (4001, 4002, 'one'), (4002, 4001, 'other');
    INSERT INTO life VALUES (1, 1, 100, 10, NULL), (2, 1, 1000, 20, NULL), (3, 1, 10000, 30, NULL);
    UPDATE allocation SET tag_id = CASE size WHEN 100 THEN 300 WHEN 1000 THEN 3000 ELSE 4001 END;"
make_trace "$scratch/deep.db" "$deep"
is "$(names peak groups --by=tag --depth=2 "$scratch/deep.db")" '(a circle of tags)/other,10000
(too many nested tags)/d953,1000
d1/d2,100' 'of 300 nested tags --depth counts from the outermost, and of too many it says so'
is "$(names peak groups --by=tag "$scratch/deep.db" | sed -n 's/^d1.*d300,/all of 300,/p')" 'all of 300,100' \
    'a path has all of 300 nested tags'
is "$("$tidemark" peak --format=csv --only=groups --tag='d1*d300' "$scratch/deep.db" | wc -l)" 2 \
    'a filter finds the innermost of 300 nested tags'
has_words "$("$tidemark" export --format=collapsed --by=tag "$scratch/deep.db")" 'd299;d300 100' \
    'a flame graph has the innermost of 300 nested tags'

done_testing
