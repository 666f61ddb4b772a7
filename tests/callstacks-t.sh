# Call stacks in traces: what `log` records of them, what is left of them after a kill, and what the command reads.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
program=$top_builddir/tests/callstack-program
trace=$scratch/t.db

# value SQL: what a query over the trace gives, as it is, without the command's own look.
value() {
    "$SQLITE3" "$trace" "$1" 2>&1
}

# record STACK MODE [LIBRARY]: into the trace.
record() {
    rm -f "$trace"*
    "$recorder" "$@" 2>"$scratch/err" || test "$2" = kill
}
recorder=$program

# functions SIZE: of the stack of the first allocation of that size, the innermost first.
functions() {
    value "SELECT group_concat(function, ' ') FROM (SELECT function FROM callstack JOIN frame USING (frame_id)
        WHERE callstack_id = (SELECT callstack_id FROM allocation WHERE size = $1 ORDER BY allocation_id LIMIT 1)
        ORDER BY position)"
}

# How many allocations have no call stack, or one that the trace does not define, or a frame of no module.
undefined="SELECT count(*) FROM allocation WHERE callstack_id IS NULL OR callstack_id NOT IN (SELECT callstack_id
    FROM callstack) OR callstack_id IN (SELECT callstack_id FROM callstack JOIN frame USING (frame_id)
    WHERE module_id IS NULL OR module_id NOT IN (SELECT module_id FROM module))"

test -n "$SQLITE3" || skip_all 'there is no sqlite3'
plan 29

record "log($trace, callstack=64) | sim" end
is $? 0 'a program is recorded with call stacks'
is "$(value "$undefined")" 0 'every allocation has one, of frames in known modules'
is "$(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" 42 'as many as there are different ones'
is "$(value "SELECT count(*) FROM callstack WHERE callstack_id = (SELECT callstack_id FROM allocation WHERE size = 1000)")" 3 \
    'which end with the program: its own functions alone'
is "$(value "SELECT count(*) FROM frame WHERE function IS NOT NULL")" 0 'as long as nobody reads it, frames have no names'
is "$(value "SELECT count(*) FROM module WHERE path LIKE '%/callstack-program' AND length(build_id) >= 32")" 1 \
    'the program is a module, with its build id'
cp "$trace" "$scratch/unread.db"

"$tidemark" summary "$trace" >/dev/null 2>&1
if test "$(value 'SELECT count(*) FROM frame WHERE function IS NOT NULL')" = 0; then
    skip 9 'there is no libdw'
else
    is "$(functions 1000)" 'program_take program_step main' 'a command that opens the trace gives frames their names'
    is "$(functions 2000)" 'program_take program_hidden main' 'also of functions that nobody exports'
    line=$(grep -n 'line of the call' "$top_srcdir/tests/callstack-program.c" | cut -d: -f1)
    is "$(value "SELECT DISTINCT (file LIKE '%tests/callstack-program.c') || ' ' || line FROM frame
        WHERE function = 'program_take'")" "1 $line" 'and the line of the call'
    is "$(value 'SELECT count(*) FROM frame WHERE function IS NULL')" 0 'all of them'
    has_words "$("$tidemark" peak --by callstack "$trace")" 'program_take (' 'peak groups by call stacks'
    has_words "$("$tidemark" peak --callstack program_hidden --json "$trace")" '"peak_bytes":2000' \
        'a filter takes those with a frame that matches'
    mkdir "$scratch/kept"
    cp "$scratch/unread.db" "$scratch/kept/t.db"
    cp "$scratch/unread.db" "$trace"
    chmod a-w "$scratch/kept/t.db" "$scratch/kept"
    if test -w "$scratch/kept"; then
        skip 1 'root writes everywhere'
    else
        has_words "$("$tidemark" peak --by callstack "$scratch/kept/t.db")" 'callstack-program+0x' \
            'where the trace cannot be written to, a frame is a place in its module'
    fi
    chmod u+w "$scratch/kept"
    "$SQLITE3" "$trace" "UPDATE module SET build_id = '00' || substr(build_id, 3)"
    has_words "$("$tidemark" peak --by callstack "$trace")" 'callstack-program+0x' \
        'a file of another build gives no names'
    "$SQLITE3" "$trace" "UPDATE module SET path = '/dev/zero'"
    has_words "$("$tidemark" peak --by callstack "$trace")" 'zero+0x' 'nor does what is no file'
fi

if command -v strip >/dev/null && strip -o "$scratch/stripped" "$program" 2>/dev/null; then
    recorder=$scratch/stripped
    record "log($trace, callstack=64) | sim" end
    has_words "$("$tidemark" peak --by callstack "$trace") $(value "$undefined")" 'stripped+0x' \
        'of a program without symbols there are places in modules'
    "$SQLITE3" "$trace" 'UPDATE frame SET function = NULL'
    DEBUGINFOD_URLS="file://$scratch/server" DEBUGINFOD_CACHE_PATH="$scratch/asked" "$tidemark" summary "$trace" >/dev/null 2>&1
    test ! -e "$scratch/asked"
    is $? 0 'and no server is asked for them'
    recorder=$program
else
    skip 2 'there is no strip'
fi

record "log($trace, callstack=2) | sim" end
is "$(value 'SELECT max(position) FROM callstack')" 1 'the depth is that of the stack text'
is "$(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" 3 'and what differs beyond it is one call stack'
record "log($trace, callstack=64, unwind=dwarf) | sim" end
is "$(value "$undefined") $(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" '0 42' \
    'the unwinder finds the same'
record "log($trace) | statistics | log(callstack=8) | sim" end
is "$(value 'SELECT group_concat(n) FROM (SELECT count(callstack_id) > 0 AS n FROM allocation GROUP BY layer_id)')" '0,1' \
    'each log layer takes call stacks or not, as it says'

record "log($trace, callstack=64, ring=4KiB) | sim" kill
"$tidemark" recover "$trace" >/dev/null 2>&1
is "$(value 'SELECT count(*) FROM allocation')" 162 'a program that is killed loses no allocation'
is "$(value "$undefined")" 0 'nor any of their call stacks'

rm -f "$scratch"/*.db*
"$program" "log($scratch/p-%p.db, callstack=8) | sim" fork
set -- "$scratch"/p-*.db
is $# 2 'a forked child has a trace of its own'
bad=0
for trace; do
    test "$(value "$undefined")" = 0 || bad=1
done
is $bad 0 'with the call stacks of its own allocations, also of those that were known before'
trace=$scratch/t.db

cat >"$scratch/library.c" <<'TEXT'
void library_call(void (*function)(void));
void library_call(void (*function)(void)) { function(); __asm__ volatile("" ::: "memory"); }
TEXT
# shellcheck disable=SC2086 # CC and CFLAGS may have several words
if ${CC:-cc} ${CFLAGS:-} -g -shared -fPIC -o "$scratch/library.so" "$scratch/library.c" 2>/dev/null; then
    record "log($trace, callstack=64) | sim" end "$scratch/library.so"
    is "$(value "SELECT count(*) FROM module WHERE path = '$scratch/library.so'") $(value "$undefined")" '1 0' \
        'a library that is loaded later is a module'
    "$tidemark" summary "$trace" >/dev/null 2>&1
    has_words "$(value "SELECT group_concat(ifnull(function, '') || ' ' || path, ' ') FROM frame JOIN module USING (module_id)")" \
        "library.so" 'that frames are in'
else
    skip 2 'there is no compiler'
fi

cat >"$scratch/static.c" <<'TEXT'
#include <stdio.h>
#include <tidemark/tidemark.h>
int main(void) {
    struct tide_resource *track;
    static char text[4096];
    void *block;
    if (tide_stack_parse("track(callstack=8) | sim", &track) != TIDE_OK ||
        tide_allocate(track, 1000, 256, 0, &block) != TIDE_OK ||
        tide_track_report_text(track, 1, text, sizeof(text), NULL) != TIDE_OK)
        return 1;
    printf("%s", text);
    tide_resource_release(track);
    return 0;
}
TEXT
# shellcheck disable=SC2086 # CC, CFLAGS and LDFLAGS may have several words
if ${CC:-cc} ${CFLAGS:-} ${LDFLAGS:-} -w -static -I"$top_srcdir/include" -o "$scratch/static" "$scratch/static.c" \
    "$top_builddir/.libs/libtidemark-test.a" -lsqlite3 -lpthread -ldl -lm >/dev/null 2>&1; then
    has_words "$("$scratch/static" 2>&1)" 'static+0x' 'a static program has addresses: libdw cannot be loaded into it'
else
    skip 1 'a static program cannot be linked here'
fi

is "$("$tidemark" query --csv "$trace" "SELECT count(*) FROM misuse" | tail -n 1)" 0 'and nothing was misused'
done_testing
