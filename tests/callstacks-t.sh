# Tests call stacks in traces: what `log` records, what is left after a kill, and how the command names the frames.
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
program=$top_builddir/tests/callstack-program
trace=$scratch/t.db

# value SQL: the result of a query over the trace by sqlite3, since `tidemark` would name the frames.
value() {
    "$SQLITE3" "$trace" "$1" 2>&1
}

# record STACK MODE [LIBRARY]: run the program, which records into the trace.
record() {
    rm -f "$trace"*
    "$recorder" "$@" 2>"$scratch/err" || test "$2" = kill
}
recorder=$program

# functions SIZE: the functions of the first allocation of that size, the innermost first.
functions() {
    value "SELECT group_concat(function, ' ') FROM (SELECT function FROM callstack JOIN frame USING (frame_id)
        WHERE callstack_id = (SELECT callstack_id FROM allocation WHERE size = $1 ORDER BY allocation_id LIMIT 1)
        ORDER BY position)"
}

# The number of allocations without a call stack, with an undefined one, or with a frame of no module.
undefined="SELECT count(*) FROM allocation WHERE callstack_id IS NULL OR callstack_id NOT IN (SELECT callstack_id
    FROM callstack) OR callstack_id IN (SELECT callstack_id FROM callstack JOIN frame USING (frame_id)
    WHERE module_id IS NULL OR module_id NOT IN (SELECT module_id FROM module))"

test -n "$SQLITE3" || skip_all 'there is no sqlite3'
plan 43

record "log($trace, callstack=64) | sim" end
is $? 0 'a program is recorded with call stacks'
is "$(value "$undefined")" 0 'every allocation has one, of frames in known modules'
is "$(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" 42 \
    'there are as many call stacks as different ones were taken'
is "$(value "SELECT count(*) FROM callstack WHERE callstack_id = (SELECT callstack_id FROM allocation WHERE size = 1000)")" 3 \
    'a call stack ends with the functions of the program itself'
is "$(value "SELECT count(*) FROM frame WHERE function IS NOT NULL")" 0 'frames have no names before the trace is read'
is "$(value "SELECT count(*) FROM module WHERE path LIKE '%/callstack-program' AND length(build_id) >= 32")" 1 \
    'the program is a module, with its build id'
cp "$trace" "$scratch/unread.db"

"$tidemark" summary "$trace" >/dev/null 2>&1
if test "$(value 'SELECT count(*) FROM frame WHERE file IS NOT NULL')" = 0; then
    skip 9 'there is no libdw'
else
    is "$(functions 1000)" 'program_take program_step main' 'a command that opens the trace gives frames their names'
    is "$(functions 2000)" 'program_take program_hidden main' 'a command that opens the trace names static functions'
    line=$(grep -n 'line of the call' "$top_srcdir/tests/callstack-program.c" | cut -d: -f1)
    is "$(value "SELECT DISTINCT (file LIKE '%tests/callstack-program.c') || ' ' || line FROM frame
        WHERE function = 'program_take'")" "1 $line" 'a command that opens the trace adds the line of the call'
    is "$(value 'SELECT count(*) FROM frame WHERE function IS NULL')" 0 \
        'a command that opens the trace names all frames'
    has_words "$("$tidemark" peak --by callstack "$trace")" 'program_take (' 'peak groups by call stacks'
    has_words "$("$tidemark" peak --callstack program_hidden --json "$trace")" '"peak_bytes":2000' \
        '--callstack keeps call stacks with a frame that matches'
    mkdir "$scratch/kept"
    cp "$scratch/unread.db" "$scratch/kept/t.db"
    cp "$scratch/unread.db" "$trace"
    chmod a-w "$scratch/kept/t.db" "$scratch/kept"
    if test -w "$scratch/kept"; then
        skip 1 'root writes everywhere'
    else
        has_words "$("$tidemark" peak --by callstack "$scratch/kept/t.db")" 'callstack-program+0x' \
            'in a trace that cannot be written, a frame is printed as a place in its module'
    fi
    chmod u+w "$scratch/kept"
    "$SQLITE3" "$trace" "UPDATE module SET build_id = '00' || substr(build_id, 3)"
    has_words "$("$tidemark" peak --by callstack "$trace")" 'callstack-program+0x' \
        'a file of another build gives no names'
    "$SQLITE3" "$trace" "UPDATE module SET path = '/dev/zero'"
    has_words "$("$tidemark" peak --by callstack "$trace")" 'zero+0x' 'a file that is no ELF file gives no names'
fi

# An empty library in place of libdw, as if there were none.
mkdir "$scratch/no-libdw"
: >"$scratch/empty.c"
# shellcheck disable=SC2086 # CC may have several words
if ${CC:-cc} -shared -o "$scratch/no-libdw/libdw.so.1" "$scratch/empty.c" 2>/dev/null; then
    no_libdw="env LD_LIBRARY_PATH=$scratch/no-libdw${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    cp "$scratch/unread.db" "$trace"
    $no_libdw "$tidemark" summary "$trace" >/dev/null 2>&1
    is "$(functions 1000)" 'program_take program_step main' 'without libdw frames get the names of the symbol table'
    is "$(functions 2000)" 'program_take program_hidden main' 'without libdw static functions get their names'
    is "$(value 'SELECT count(*) - count(function) FROM frame')" 0 'without libdw all frames of the program get names'
    is "$(value 'SELECT count(file) + count(line) FROM frame')" 0 'without libdw no frame gets a source file or a line'
    "$tidemark" summary "$trace" >/dev/null 2>&1
    if test "$(value "SELECT count(*) FROM frame WHERE file <> ''")" = 0; then
        skip 1 'there is no libdw'
    else
        is "$(value "SELECT DISTINCT line FROM frame WHERE function = 'program_take'")" "$line" \
            'a command with libdw adds the lines to names that were found without'
    fi
    cp "$scratch/unread.db" "$trace"
    "$SQLITE3" "$trace" "UPDATE module SET build_id = '00' || substr(build_id, 3)"
    has_words "$($no_libdw "$tidemark" peak --by callstack "$trace")" 'callstack-program+0x' \
        'without libdw a file of another build gives no names'
else
    skip 6 'there is no compiler'
    no_libdw=
fi

if command -v strip >/dev/null && strip -o "$scratch/stripped" "$program" 2>/dev/null; then
    recorder=$scratch/stripped
    record "log($trace, callstack=64) | sim" end
    has_words "$("$tidemark" peak --by callstack "$trace") $(value "$undefined")" 'stripped+0x' \
        'frames of a program without symbols are printed as places in its module'
    "$SQLITE3" "$trace" 'UPDATE frame SET function = NULL'
    DEBUGINFOD_URLS="file://$scratch/server" DEBUGINFOD_CACHE_PATH="$scratch/asked" "$tidemark" summary "$trace" >/dev/null 2>&1
    test ! -e "$scratch/asked"
    is $? 0 'no debuginfod server is asked for the names of a program without symbols'
    recorder=$program
else
    skip 2 'there is no strip'
fi

# separate NAME OPTION...: record with a program whose debug information is in a separate file, made by objcopy with
# these options.
separate() {
    name=$1
    shift
    mkdir -p "$scratch/$name/.debug"
    objcopy --only-keep-debug "$@" "$program" "$scratch/$name/.debug/p.debug" &&
        objcopy --strip-all "$@" "$program" "$scratch/$name/p" &&
        objcopy --add-gnu-debuglink="$scratch/$name/.debug/p.debug" "$scratch/$name/p" &&
        recorder=$scratch/$name/p && record "log($trace, callstack=64) | sim" end && "$tidemark" summary "$trace" >/dev/null 2>&1
    recorder=$program
}
if command -v objcopy >/dev/null && separate linked 2>/dev/null; then
    is "$(functions 2000)" 'program_take program_hidden main' \
        'debug information in a file beside the program is used if the build id is equal'
    separate checked --remove-section=.note.gnu.build-id
    is "$(functions 2000)" 'program_take program_hidden main' \
        'without a build id debug information is used if the checksum is right'
    printf 'another' >>"$scratch/checked/.debug/p.debug"
    "$SQLITE3" "$trace" 'UPDATE frame SET function = NULL'
    "$tidemark" summary "$trace" >/dev/null 2>&1
    is "$(functions 2000 | tr -d ' ')" '' 'without a build id debug information is not used if the checksum is wrong'
else
    skip 3 'there is no objcopy'
fi

record "log($trace, callstack=2) | sim" end
is "$(value 'SELECT max(position) FROM callstack')" 1 'the depth is that of the stack text'
is "$(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" 3 \
    'call stacks that differ only beyond the depth are one'
record "log($trace, callstack=64, unwind=dwarf) | sim" end
is "$(value "$undefined") $(value 'SELECT count(DISTINCT callstack_id) FROM allocation')" '0 42' \
    'with unwind=dwarf there are as many call stacks as with frame pointers'
record "log($trace) | statistics | log(callstack=8) | sim" end
is "$(value 'SELECT group_concat(n) FROM (SELECT count(callstack_id) > 0 AS n FROM allocation GROUP BY layer_id)')" '0,1' \
    'a log layer takes call stacks if its own options say so'

record "log($trace, callstack=64, ring=4KiB) | sim" kill
"$tidemark" recover "$trace" >/dev/null 2>&1
is "$(value 'SELECT count(*) FROM allocation')" 162 'a program that is killed loses no allocation'
is "$(value "$undefined")" 0 'a program that is killed loses no call stack'

# AddressSanitizer does not hold its allocator over fork(): a child may wait for it for ever. Then the program runs again.
case " $CFLAGS" in
*-fsanitize*) tries=3 ;;
*) tries=1 ;;
esac
while :; do
    rm -f "$scratch"/*.db*
    timeout 60 "$program" "log($scratch/p-%p.db, callstack=8) | sim" fork && break
    tries=$((tries - 1))
    test $tries -gt 0 || break
done
set -- "$scratch"/p-*.db
is $# 2 'a forked child has a trace of its own'
bad=0
for trace; do
    test "$(value "$undefined")" = 0 || bad=1
done
is $bad 0 'the trace of the child has the call stacks of its allocations, also those taken before the fork'
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
    cp "$trace" "$scratch/unread.db"
    "$tidemark" summary "$trace" >/dev/null 2>&1
    has_words "$(value "SELECT group_concat(ifnull(function, '') || ' ' || path, ' ') FROM frame JOIN module USING (module_id)")" \
        "library.so" 'frames lie in the library that was loaded later'
    strip "$scratch/library.so"
    cp "$scratch/unread.db" "$trace"
    $no_libdw "$tidemark" summary "$trace" >/dev/null 2>&1
    has_words "$(value "SELECT group_concat(function) FROM frame JOIN module USING (module_id) WHERE path = '$scratch/library.so'")" \
        'library_call' 'without libdw a stripped library has the names of what it exports'
else
    skip 3 'there is no compiler'
fi

# A program that prints where it has allocated: in a C++ function, whose name its own demangler demangles.
cat >"$scratch/report.c" <<'TEXT'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tidemark/tidemark.h>
static struct tide_resource *track;
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status);
char *__cxa_demangle(const char *name, char *buffer, size_t *length, int *status) {
    char *text = malloc(100);
    (void)buffer, (void)length;
    snprintf(text, 100, "demangled-%s", name);
    *status = 0;
    return text;
}
void *_ZN4here4takeEv(void);
__attribute__((noinline)) void *_ZN4here4takeEv(void) {
    void *block = NULL;
    if (tide_allocate(track, 1000, 256, 0, &block) != TIDE_OK)
        exit(1);
    return block;
}
int main(void) {
    static char text[4096];
    if (tide_stack_parse("track(callstack=8) | sim", &track) != TIDE_OK || _ZN4here4takeEv() == NULL ||
        tide_track_report_text(track, 1, text, sizeof(text), NULL) != TIDE_OK)
        return 1;
    printf("%s", text);
    tide_resource_release(track);
    return 0;
}
TEXT
# A replacement for the client of debuginfod servers, which makes a file when it is used.
cat >"$scratch/client.c" <<'TEXT'
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
void *debuginfod_begin(void) { return close(creat(getenv("ASKED"), 0600)), malloc(1); }
void debuginfod_end(void *client) { free(client); }
int debuginfod_find_debuginfo(void *client, const void *id, int bytes, char **path) { return -2; }
int debuginfod_find_executable(void *client, const void *id, int bytes, char **path) { return -2; }
int debuginfod_find_source(void *client, const void *id, int bytes, const char *name, char **path) { return -2; }
int debuginfod_find_section(void *client, const void *id, int bytes, const char *name, char **path) { return -2; }
void debuginfod_set_progressfn(void *client, void *function) { }
void debuginfod_set_user_data(void *client, void *data) { }
void *debuginfod_get_user_data(void *client) { return 0; }
const char *debuginfod_get_url(void *client) { return 0; }
int debuginfod_add_http_header(void *client, const char *header) { return 0; }
void debuginfod_set_verbose_fd(void *client, int file) { }
TEXT
mkdir "$scratch/client"
# shellcheck disable=SC2086 # CC, CFLAGS and LDFLAGS may have several words
if test -n "$no_libdw" && ${CC:-cc} ${CFLAGS:-} ${LDFLAGS:-} -w -rdynamic -Wl,--build-id -I"$top_srcdir/include" \
    -o "$scratch/report" "$scratch/report.c" -L"$top_builddir/.libs" -ltidemark "-Wl,-rpath,$top_builddir/.libs" \
    >/dev/null 2>&1; then
    has_words "$("$scratch/report" 2>&1)" 'demangled-_ZN4here4takeEv' \
        'a program names its own frames, demangled by what is in the process'
    has_words "$($no_libdw "$scratch/report" 2>&1)" 'demangled-_ZN4here4takeEv' \
        'without libdw a program names its own frames by its symbol table'
    strip -o "$scratch/report-stripped" "$scratch/report"
    has_words "$($no_libdw "$scratch/report-stripped" 2>&1)" 'demangled-_ZN4here4takeEv' \
        'without libdw a stripped program has the names of what it exports'
    ${CC:-cc} -w -shared -fPIC -Wl,-soname,libdebuginfod.so.1 -o "$scratch/client/libdebuginfod.so.1" "$scratch/client.c"
    ASKED=$scratch/asked-in-process DEBUGINFOD_URLS=http://127.0.0.1:9/ DEBUGINFOD_CACHE_PATH=$scratch/cache \
        LD_LIBRARY_PATH=$scratch/client${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$scratch/report-stripped" >/dev/null 2>&1
    test ! -e "$scratch/asked-in-process"
    is $? 0 'no server is asked for the names of frames in the process'
else
    skip 4 'a program cannot be linked here'
fi

# shellcheck disable=SC2086 # CC, CFLAGS and LDFLAGS may have several words
if ${CC:-cc} ${CFLAGS:-} ${LDFLAGS:-} -w -static -I"$top_srcdir/include" -o "$scratch/static" "$scratch/report.c" \
    "$top_builddir/.libs/libtidemark-test.a" -lsqlite3 -lpthread -ldl -lm >/dev/null 2>&1; then
    has_words "$("$scratch/static" 2>&1)" '_ZN4here4takeEv' \
        'a static program has names of its symbol table: libdw cannot be loaded into it'
else
    skip 1 'a static program cannot be linked here'
fi

is "$("$tidemark" query --csv "$trace" "SELECT count(*) FROM misuse" | tail -n 1)" 0 \
    'no test program was recorded with misuse'
done_testing
