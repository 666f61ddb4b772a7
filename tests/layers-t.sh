#!/bin/sh
# The rooms of the house use each other as the table in doc/design.md says, and files of one room stand in no circle.
#
# An arrow leads from a file to another that it includes, or that defines a symbol which it needs. `x.c` and `x.h` are
# one file here. What is still wrong is listed below, one finding a line with its reason; a line whose finding is gone
# fails the test, so that the list only shrinks.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

# `arrow FROM TO: REASON` or `circle FILES: REASON`.
cat >"$scratch/known" <<'KNOWN'
KNOWN

(cd "$top_srcdir" && find src adaptors viewer -name '*.[ch]' | LC_ALL=C sort) >"$scratch/sources"

# The objects of the library and of the command, each with the symbols that it defines and needs.
(cd "$top_builddir" && find src adaptors viewer -name 'libtidemark_la-*.o' -path '*/.libs/*' -o \
    -name 'libviewer_la-*.o' -path 'viewer/*/.libs/*' -o -name 'tidemark-*.o' -path 'viewer/*' |
    LC_ALL=C sort | xargs $NM -A) >"$scratch/symbols" 2>/dev/null
grep -q '^src/.*\.libs/libtidemark_la-' "$scratch/symbols" || skip_all 'there are no objects of a shared library'
plan 6

# The includes of each source within this tree.
(cd "$top_srcdir" && xargs grep -H '^#include "' <"$scratch/sources") >"$scratch/includes"

# Prints `room NAME`, `stray FILE`, `arrow FROM TO (WHY)`, `circle FILES` and `gone LINE`.
cat >"$scratch/layers.awk" <<'AWK'
# The room of a file: the longest of the rooms that its name begins with.
function room_of(file, i, best)
{
    best = ""
    for (i = 1; i <= rooms; i++)
        if (index(file, room[i]) == 1 && length(room[i]) > length(best))
            best = room[i]
    return best
}

# Let room `a` use `b` (a file, a room, or a folder with all its rooms) and everything that `b` may use.
function allow(a, b, i, k)
{
    if (b !~ /\/$/) {
        may[a, b] = 1
        file_named[b] = 1
        return
    }
    for (i = 1; i < rooms; i++) {
        if (index(room[i], b) != 1)
            continue
        may[a, room[i]] = 1
        for (k = 1; k < rooms; k++)
            if (may[room[i], room[k]])
                may[a, room[k]] = 1
        for (k in file_named)
            if (may[room[i], k])
                may[a, k] = 1
    }
}

function arrow(from, to, name, a, b)
{
    a = room_of(from)
    b = room_of(to)
    if (a == b || may[a, b] || may[a, to] || ((from, to) in told))
        return
    told[from, to] = 1
    found("arrow " from " " to, name)
}

function found(what, name)
{
    if (what in known)
        met[what] = 1
    else
        print what (name != "" ? " (" name ")" : "")
}

function stem(file)
{
    sub(/\.[ch]$/, "", file)
    return file
}

# Strongly connected components within the rooms (Tarjan), by recursion.
function visit(v, n, list, i, w, names, count)
{
    number[v] = low[v] = ++visited
    stack[++depth] = v
    on_stack[v] = 1
    n = split(edges[v], list, " ")
    for (i = 1; i <= n; i++) {
        w = list[i]
        if (!(w in number)) {
            visit(w)
            if (low[w] < low[v])
                low[v] = low[w]
        } else if (on_stack[w] && number[w] < low[v]) {
            low[v] = number[w]
        }
    }
    if (low[v] != number[v])
        return
    count = 0
    do {
        w = stack[depth--]
        on_stack[w] = 0
        names[++count] = w
    } while (w != v)
    if (count > 1)
        found("circle" sorted(names, count))
}

function sorted(names, count, i, j, w, text)
{
    for (i = 2; i <= count; i++)
        for (j = i; j > 1 && names[j] < names[j - 1]; j--) {
            w = names[j]
            names[j] = names[j - 1]
            names[j - 1] = w
        }
    text = ""
    for (i = 1; i <= count; i++)
        text = text " " names[i]
    return text
}

# The known findings
part == 1 {
    sub(/: .*/, "")
    known[$0] = 1
}

# doc/design.md
part == 2 && /^## / { in_house = $0 == "## The house" }
part == 2 && in_house && /^\| `/ {
    gsub(/`/, "")
    split($0, cell, / *\| */)
    room[++rooms] = cell[2]
    print "room", cell[2]
    gsub(/,/, " ", cell[4])
    n = split(cell[4], list, " ")
    for (i = 1; i <= n; i++)
        allow(cell[2], list[i])
}

# The sources
part == 3 {
    if (room_of($0) == "")
        print "stray", $0
    source[$0] = 1
}

# The includes: FILE:#include "PATH"
part == 4 {
    split($0, half, ":#include \"")
    sub(/".*/, "", half[2])
    if (half[2] in source)
        arrow(stem(half[1]), stem(half[2]), "#include")
}

# The symbols: OBJECT:VALUE LETTER NAME, or OBJECT: U NAME
part == 5 {
    object = $1
    sub(/:.*/, "", object)
    if (object != last) {
        last = object
        file = object
        sub(/\.libs\//, "", file)
        sub(/\/(libtidemark_la|libviewer_la|tidemark)-/, "/", file)
        sub(/\.o$/, "", file)
        built[file] = (file ".c") in source # else what an older build has left
    }
    if (!built[file])
        next
    if ($(NF - 1) == "U" || $(NF - 1) == "w")
        needs[file] = needs[file] " " $NF
    else if ($(NF - 1) ~ /[A-Z]/)
        home[$NF] = file
}

# Whether this build could show a known finding: it has the objects of all its files.
function checkable(what, list, n, i)
{
    n = split(what, list, " ")
    for (i = 2; i <= n; i++)
        if (((list[i] ".c") in source) && !built[list[i]])
            return 0
    return 1
}

END {
    for (file in needs) {
        n = split(needs[file], list, " ")
        for (i = 1; i <= n; i++) {
            to = home[list[i]]
            if (to == "" || to == file)
                continue
            # The public functions are an interface of their own, which a room may use or not.
            if (list[i] ~ /^tide_/ && may[room_of(file), "include/tidemark/"])
                continue
            if (room_of(to) == room_of(file))
                edges[file] = edges[file] " " to
            else
                arrow(file, to, list[i])
        }
    }
    for (file in edges)
        if (!(file in number))
            visit(file)
    for (what in known)
        if (!(what in met) && checkable(what))
            print "gone", what
}
AWK
"$AWK" -f "$scratch/layers.awk" part=1 "$scratch/known" part=2 "$top_srcdir/doc/design.md" part=3 "$scratch/sources" \
    part=4 "$scratch/includes" part=5 "$scratch/symbols" | LC_ALL=C sort >"$scratch/found"

# none WORD: whether no finding begins with the word. Findings are printed.
none() {
    ! grep "^$1 " "$scratch/found"
}

# rooms_are_there: whether each room of the table is a folder with sources.
rooms_are_there() {
    status=0
    for room in $(sed -n 's/^room //p' "$scratch/found"); do
        ls "$top_srcdir/$room"*.h >/dev/null 2>&1 || ls "$top_srcdir/$room"*.c >/dev/null 2>&1 ||
            { echo "$room has no sources" && status=1; }
    done
    return $status
}

ok 'doc/design.md has the table of the rooms' grep -q '^room src/resource/$' "$scratch/found"
ok 'each room of the table is a folder with sources' rooms_are_there
ok 'each source lies in a room of the table' none stray
ok 'no file uses another that its room may not use' none arrow
ok 'no files of one room need each other in a circle' none circle
if grep -q '^#define HAVE_CUPTI_H' "$top_builddir/config.h"; then
    ok 'each exception in the table is still needed' none gone
else
    skip 1 'this build has not all of the code'
fi
done_testing
