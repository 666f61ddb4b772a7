# Tests call stacks of Python: a program notes the frames that Python reports, which the trace must have.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
program=$top_srcdir/tests/python-stacks.py
library=$top_builddir/.libs/libtidemark.so
trace=$scratch/t.db
python=${PYTHON:-python3}

test -n "$SQLITE3" || skip_all 'there is no sqlite3'
test -f "$library" || skip_all 'there is no shared library'
$NM -D "$library" 2>/dev/null | grep -q '__asan_init\|__tsan_init' && skip_all 'a sanitizer has to be in python3 itself'
$python -c 'import ctypes, sys; sys.exit(sys.version_info < (3, 9) or sys.version_info >= (3, 14))' 2>/dev/null ||
    skip_all 'there is no Python of 3.9 to 3.13'
plan 51

# run STACK WHAT...: run a part of the program, with $python.
run() {
    rm -f "$trace"* "$scratch/notes"
    stack=$1
    shift
    timeout 120 $python -B "$program" "$library" "$stack" "$scratch/notes" "$@" >"$scratch/out" 2>"$scratch/err"
}

# seen [FILE]: for each allocation its size and its frames, as the program notes them, sorted.
seen() {
    "$SQLITE3" "${1:-$trace}" "SELECT size || ' ' || coalesce((SELECT group_concat(name, ' < ') FROM
        (SELECT function || ' (' || file || ':' || ifnull(line, 0) || ')' AS name FROM callstack JOIN frame USING (frame_id)
        WHERE callstack.callstack_id = allocation.callstack_id ORDER BY position)), '') FROM allocation" | sort
}

# same SENTENCE: whether the trace has the frames that the program noted.
same() {
    sort "$scratch/notes" >"$scratch/wanted"
    seen >"$scratch/seen"
    ok "$1" test -s "$scratch/wanted" -a -z "$(cmp "$scratch/wanted" "$scratch/seen" 2>&1)" ||
        diff "$scratch/wanted" "$scratch/seen" | head -n 6 | sed 's/^/# /'
}

value() {
    "$SQLITE3" "$trace" "$1" 2>&1
}

run "log($trace, callstack=python) | host" basic
is $? 0 'a program runs with call stacks of Python'
same 'the frames are those that Python reports: of functions, methods, generators, lambdas, recursion, threads and odd names'
is "$(value "SELECT count(*) FROM frame WHERE address >= 0 OR module_id IS NOT NULL OR function IS NULL")" 0 \
    'all frames are of Python, and have their names before the trace is read'
is "$(value "SELECT count(*) FROM (SELECT function, file, line FROM frame GROUP BY 1, 2, 3 HAVING count(*) > 1)")" 0 \
    'each line is one frame'
is "$(value "SELECT max(position) FROM callstack")" 127 'a call stack has 128 frames at most'
is "$(value "SELECT hex(function) FROM frame WHERE function LIKE 'a%drop%'")" \
    "$(printf 'a\\x00b\t"<c>"; drop table frame; %s' "'" | od -An -tx1 | tr -d ' \n' | tr a-f A-F)" \
    'a NUL in a name is escaped'
has_words "$(value "SELECT file FROM frame WHERE file LIKE 'odd%'")" 'odd \ud800' \
    'a half of a surrogate pair in a name is escaped'
is "$(value 'SELECT max(length(file)) BETWEEN 1000 AND 1023 FROM frame')" 1 'a long name is cut'

# What the commands make of it.
has_words "$("$tidemark" peak --by function "$trace" 2>&1)" 'take (python-stacks.py) < ? < odd (python-stacks.py)' \
    'peak groups by functions of Python'
has_words "$("$tidemark" peak --by callstack "$trace" 2>&1)" 'odd (python-stacks.py:' 'peak prints call stacks of Python'
has_words "$("$tidemark" top --by callstack --json "$trace" 2>&1)" 'outer' 'top groups by call stacks of Python'
ok 'a name with a control character is printed escaped' \
    test -z "$("$tidemark" peak --by callstack "$trace" 2>&1 | tr -d '\n\t' | tr -dc '\000-\037')"
"$tidemark" export --format=collapsed --weight=allocated "$trace" >"$scratch/collapsed" 2>&1
has_words "$(cat "$scratch/collapsed")" "inner ($program:" 'flame graphs have frames of Python'

run "log($trace, callstack=python) | host" dying 2000
same 'code objects that come to the addresses of dead ones get names of their own'
run "log($trace, callstack=python) | host" hammer 1
same 'eight threads that make and run code have the frames that Python reports'
run "log($trace, callstack=python) | host" same 500
same 'new code objects of the same source have their frames'
is "$(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" 1 'code objects of the same source have one call stack'
run "log($trace, callstack=python) | host" unbegun
same 'what the collector runs while a function is called has the frames that Python reports'
run "log($trace, callstack=python) | host" raising
is $? 0 'an exception that is being handled stays as it is'
same 'a call stack is taken while an exception is handled'
run "log($trace, callstack=python) | host" returned
is "$(cat "$scratch/out")" '0 0' 'at the end of Python all references to its code are given back'
run "log($trace, callstack=python:3) | host" basic
is "$(value 'SELECT max(position) FROM callstack')" 2 'python:3 takes three frames'
has_words "$(value "SELECT value FROM meta WHERE key = 'stack'")" 'callstack=python:3' 'the trace has the stack as it was given'

run "log($trace, callstack=python, ring=4KiB) | host" killed
"$tidemark" recover "$trace" >/dev/null 2>&1
same 'a program that is killed loses no frame'
run "log($scratch/p-%p.db, callstack=python) | host" forked
is "$(for file in "$scratch"/p-*.db; do seen "$file"; done | sed 's/ .*forked.*/ forked/' | sort | tr '\n' ' ')" \
    '1900 forked 1901 forked 1902 forked ' 'a forked child has its frames in a trace of its own'
for _ in 1 2 3; do
    run "log($trace, callstack=python) | host" daemon || break
done
is "$?" 0 'a program ends while threads allocate'
"$tidemark" recover "$trace" >/dev/null 2>&1
seen | grep -v ' $' | grep -vc '^180[01] take .* < inner .* < outer ' >"$scratch/odd"
is "$(cat "$scratch/odd")" 0 'what threads allocate while Python ends has the frames of Python, or none'

# Native frames and those of Python.
run "log($trace, callstack=mixed) | host" between
is $? 0 'a program runs with mixed call stacks'
"$tidemark" summary "$trace" >/dev/null 2>&1
names=$(value "SELECT group_concat(ifnull(nullif(function, ''), '?'), ' ') FROM (SELECT function FROM allocation JOIN callstack
    USING (callstack_id) JOIN frame USING (frame_id) WHERE size = 2200 GROUP BY callstack_id, position ORDER BY callstack_id, position)")
ok 'native frames stand between those of Python as they were called' \
    expr " $names " : '.* take inner outer [^ ]*compare .*qsort.* between main <module> $' || diag "$names"
ok 'none of the interpreter'"'"'s own functions is in a mixed call stack' \
    test -z "$(echo "$names" | tr ' ' '\n' | grep '^_*Py\(Eval\|Object\)\|vectorcall')" || diag "$names"
run "log($trace, callstack=mixed:5) | host" basic
is "$(value 'SELECT max(position) FROM callstack')" 4 'mixed:5 takes five frames of both kinds'
run "track(callstack=python) | host" report
has_words "$(cat "$scratch/out")" "report ($program:" 'a report of track has frames of Python'

# Values that are wrong.
wrong() {
    run "log($trace, callstack=$1) | host" basic
    has_words "$(cat "$scratch/err")" "$2" "callstack=$1 is an error that says why"
}
wrong ruby 'expected frames of a call stack, at most 128, or python, mixed, or such as python:32'
wrong python:0 'too small'
wrong python:129 'too large'
wrong python: 'begins with no digit'
wrong 'python, unwind=dwarf' 'unwind says how native frames are found'
wrong mixed:x 'begins with no digit'

# Python within a program. Those of the installed versions that have a library to load.
home=$($python -c 'import sys; print(sys.base_prefix)')
embedded=$($python -c 'import os, sysconfig
print(os.path.join(sysconfig.get_config_var("LIBDIR") or "", sysconfig.get_config_var("INSTSONAME") or ""))')
embedded_status=3
test -f "$embedded" && {
    TIDEMARK_STACK="log($scratch/b.db, callstack=python) | host" PYTHONHOME=$home timeout 60 \
        "$top_builddir/tests/python-embed" "$embedded" "log($scratch/e.db, callstack=python) | host" 2>"$scratch/err"
    embedded_status=$?
}
if test $embedded_status -ne 3; then
    is $embedded_status 0 'a program loads Python after its stack was made, ends it, and begins it again' ||
        diag "$(cat "$scratch/err")"
    frames() {
        "$SQLITE3" "$scratch/e.db" "SELECT group_concat(frames, '; ') FROM (SELECT DISTINCT size || ' ' || coalesce((SELECT
            group_concat(function || ':' || line, ' ') FROM callstack JOIN frame USING (frame_id)
            WHERE callstack.callstack_id = allocation.callstack_id), '-') AS frames FROM allocation WHERE size IN ($1))"
    }
    is "$(frames '4, 5')" '4 second:2 <module>:4; 5 second:3 <module>:4' \
        'Python that is loaded after the stack was made, with symbols that are not global, has its frames'
    is "$(frames '1, 2, 10, 13, 40')" '1 -; 2 -; 10 -; 13 -; 40 -' 'where no Python runs there are no frames of it'
    is "$(frames '11, 12')" '11 of_thread:2 <module>:4; 12 of_thread:3 <module>:4' \
        'a thread that Python does not know has frames while it runs Python'
    is "$(frames 50)" '50 waits:5' \
        'an allocation without the GIL has its frames while another thread holds the GIL and waits for it'
    is "$(frames '20, 21, 30')" '20 -; 21 -; 30 after:2 <module>:3' 'the frames of another interpreter are not recorded'
    is "$(frames '41, 42, 43')" '41 again:2 <module>:3; 42 third:2 <module>:4; 43 third:3 <module>:4' \
        'Python that has ended and was begun again has its frames'
    is "$(frames '900, 901')" '900 noted:4 <module>:5; 901 -' \
        'a thread that runs no Python has the call stack that it was lent, until it is taken back'
    is "$(frames 700)" '700 profiled:3 <module>:4' 'no Python code runs within an allocation that finds Python'
    is "$(frames 800)" '800 collected:11 <module>:12' 'the collector never runs within an allocation'
    is "$("$SQLITE3" "$scratch/b.db" "SELECT size || ' ' || group_concat(function || ':' || line, ' ') FROM allocation
        JOIN callstack USING (callstack_id) JOIN frame USING (frame_id)")" '500 waits:5' \
        'the first stack of the bridge waits for no thread that holds the GIL'
else
    skip 11 'there is no library of Python to load'
fi

# Without Python.
"$top_builddir/tests/callstack-program" "log($trace-native, callstack=python) | sim" end >"$scratch/out" 2>&1
is "$("$SQLITE3" "$trace-native" 'SELECT count(*), count(callstack_id) FROM allocation' | sed 's/^[1-9][0-9]*|/n|/')" 'n|0' \
    'a program without Python has no frames of it'
"$top_builddir/tests/callstack-program" "log($trace-native-2, callstack=mixed) | sim" end >"$scratch/out" 2>&1
is "$("$SQLITE3" "$trace-native-2" 'SELECT count(*) = count(callstack_id) FROM allocation')" 1 \
    'a program without Python has its native frames with mixed'
done_testing
