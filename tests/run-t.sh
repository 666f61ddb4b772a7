#!/bin/sh
# Tests `tidemark run` with a stand-in for libtidemark (tests/run/stand-in.c): which functions of the driver are replaced,
# in which processes, and that the program finds all else as without.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
top_builddir=$(cd "$top_builddir" && pwd)
fake=$top_builddir/tests/fake-cuda/.libs
objects=$top_builddir/tests/run/.libs
programs=$top_builddir/tests/run
module=$objects/libmodule.so
test -e "$objects/libstand-in.so" && test -e "$top_builddir/.libs/libtidemark-run.so" ||
    skip_all 'this build has no objects for tidemark run, or no fake driver'
unset TIDEMARK_STACK LD_AUDIT LD_PRELOAD NVTX_INJECTION64_PATH
LD_LIBRARY_PATH=$fake:$top_builddir/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
TIDEMARK_LIBRARY=$objects/libstand-in.so
RUN_CALLS=$scratch/calls
export LD_LIBRARY_PATH TIDEMARK_LIBRARY RUN_CALLS
# The command itself, without libtool's script.
tidemark=$top_builddir/.libs/tidemark
test -x "$tidemark" || tidemark=$top_builddir/tidemark
ways='audit preload'

# run OPTION... -- PROGRAM...: output to $said, status to $status, calls without process ids to $calls.
run() {
    : >"$RUN_CALLS"
    said=$(cd "$scratch" && timeout 60 "$tidemark" run "$@" 2>&1)
    status=$?
    calls=$(sed -e 's/^[0-9]* //' -e '/^start/d' "$RUN_CALLS" | tr '\n' ' ')
}

# alike PROGRAM...: whether output and status of the program are as without, by $way. Leaves the calls in $calls.
alike() {
    alone=$(cd "$scratch" && timeout 60 "$@" 2>&1)
    alone_status=$?
    run --interpose="$way" -- "$@"
    test "$alone/$alone_status" = "$said/$status" || {
        diag "alone: $alone ($alone_status)"
        diag "with tidemark run: $said ($status)"
        return 1
    }
}

# reaches WAY CALLS SENTENCE PROGRAM...
reaches() {
    way=$1 wanted=$2 sentence="$3 ($1)"
    shift 3
    if alike "$@" && test "$calls" = "$wanted"; then
        ok "$sentence" true
    else
        ok "$sentence" false
        diag "calls: $calls"
        diag "wanted: $wanted"
    fi
}

# count WORD: how many calls have it.
count() {
    echo "$calls" | tr ' ' '\n' | grep -c -x "$1"
}

plan 161

usual='cuMemAlloc_v2 cuMemAlloc_v2 cuMemFree_v2 cuMemFree_v2 cuMemFree_v2 cuMemGetInfo_v2 '
pair='cuMemAlloc_v2 cuMemFree_v2 '
for way in $ways; do
    reaches $way "$usual" 'a function found by dlsym with the handle is counted' "$programs/reach" handle
    reaches $way "$usual" 'a function found by dlsym with RTLD_DEFAULT is counted' "$programs/reach" default
    reaches $way "$usual" 'a function found by dlsym with RTLD_NEXT is counted' "$programs/linked" next
    for version in 1 2 3; do
        reaches $way "${usual}cuMemAllocAsync cuMemFreeAsync " \
            "a function found by cuGetProcAddress (way $version) is counted" "$programs/reach" address $version 0
        reaches $way "${usual}cuMemAllocAsync cuMemFreeAsync " \
            "cuGetProcAddress (way $version) with the flag of the legacy stream finds the plain function" \
            "$programs/reach" address $version 1
        reaches $way "${usual}cuMemAllocAsync_ptsz cuMemFreeAsync_ptsz " \
            "cuGetProcAddress (way $version) with the flag of per-thread streams finds the function of _ptsz" \
            "$programs/reach" address $version 2
    done
    reaches $way '' 'cuGetProcAddress of CUDA 11 answers wrong questions, and NULL, as without' "$programs/reach" wrong 1
    reaches $way '' 'cuGetProcAddress of CUDA 12 answers wrong questions, and NULL, as without' "$programs/reach" wrong 2
    reaches $way "$pair" 'a call through the PLT of an object that was opened is counted' "$programs/reach" plt "$module"
    reaches $way "$pair" 'a call of a program that is bound lazily is counted' "$programs/linked"
    reaches $way "$pair" 'a call of a program that is bound when it starts is counted' "$programs/linked-now"
    reaches $way "$pair" 'a call of a program without a PLT is counted' "$programs/linked-no-plt"
    reaches $way "$pair" 'a call of a program without a PLT is counted, whose relocations lie with its code' \
        "$programs/linked-together"
    reaches $way "$pair" 'a call of a program without a PLT is counted that is no PIE' "$programs/linked-fixed"
    reaches $way "$usual" "an address in the program's data is that of the counting function" "$programs/linked" data
    FAKE_CUDA_VERSION=11010
    export FAKE_CUDA_VERSION
    ok "a program finds of an older driver what that has, and nothing else ($way)" alike "$programs/reach" address 2 0
    unset FAKE_CUDA_VERSION
    reaches $way '' 'where no driver is loaded, its functions are nowhere' "$programs/reach" nothing
    reaches $way "$usual" 'a program that clears its environment is counted' "$programs/reach" cleared
    reaches $way "$usual$usual" 'a child of fork, and its parent after it, are counted' "$programs/reach" fork
    reaches $way "$usual$usual" 'a program that executes itself is counted before and after' "$programs/reach" exec
    reaches $way '' 'a process that allocates nothing loads no library and starts no thread' "$programs/reach" quiet
    ok "such a process does not even start the account ($way)" test ! -s "$RUN_CALLS"
    run --interpose=$way -- "$programs/reach" threads
    is "$status $said $(count cuMemAlloc_v2) $(count cuMemFree_v2)" '0 failed 0 16 16' \
        "16 threads that allocate first at one time are all counted ($way)"
    run --interpose=$way -- "$programs/reach" constructor "$module"
    is "$status $(count cuMemAlloc_v2)" '0 2' \
        "a first allocation and one in a constructor, under the linker's lock, do not wait for each other ($way)"
    RUN_START_SLOW=1
    export RUN_START_SLOW
    run --interpose=$way -- "$programs/reach" constructor "$module" late
    is "$status $(echo "$said" | grep -c -e '^0$' -e '^constructor: 0 0$')" '0 2' \
        "nor do they for ever where the start of the account needs that lock ($way)"
    run --interpose=$way -- "$programs/reach" threads
    is "$status $said $(count cuMemAlloc_v2) $(grep -c start "$RUN_CALLS")" '0 failed 0 16 1' \
        "threads wait for a start that takes its time, and are counted ($way)"
    unset RUN_START_SLOW
    for signal in 6 9 15; do
        reaches $way "$usual" "a program that dies of signal $signal has that status" "$programs/reach" die $signal
    done
    # HAMi-core's failures, by the numbers of their issues and pull requests.
    reaches $way '' 'RTLD_NEXT finds what follows the asking object, and not itself (HAMi-core 315, 279)' \
        "$programs/linked" tool
    reaches $way '' "names that begin as the driver's are a library's own (HAMi-core 215, 326)" \
        "$programs/reach" names "$module"
done
way=audit
reaches audit "$pair$usual" 'an object opened with RTLD_DEEPBIND is counted (HAMi-core 8.4)' \
    "$programs/reach" deepbind "$module"
way=preload
ok 'with --interpose=preload such an object is not counted, and runs as without' alike "$programs/reach" deepbind "$module"
LD_LIBRARY_PATH=$objects/../versioned/.libs:$LD_LIBRARY_PATH
for way in $ways; do
    reaches $way "$usual" 'a function found by dlvsym is counted' "$programs/reach" version
done
LD_LIBRARY_PATH=${LD_LIBRARY_PATH#*:}

# Objects without a PLT that are loaded and unloaded, and those whose dynamic section cannot be written.
cat >"$scratch/plug.c" <<'END'
int cuInit(unsigned flags);
int cuMemFree_v2(unsigned long long pointer);
int (*const plug_table[])(unsigned long long) = { cuMemFree_v2 };
int plug(void);
int
plug(void)
{
    return cuInit(0) + plug_table[0](0);
}
END
cat >"$scratch/cycles.c" <<'END'
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static long
size_now(void)
{
    long pages = -1;
    FILE *file = fopen("/proc/self/statm", "r");

    if (file != NULL && fscanf(file, "%ld", &pages) != 1)
        pages = -1;
    if (file != NULL)
        fclose(file);
    return pages;
}
int
main(int count, char **arguments)
{
    long before = 0;

    for (int i = 0; i < 60; i++) {
        void *plug = dlopen(arguments[count - 1], RTLD_NOW);
        int (*function)(void);

        if (plug == NULL)
            return 1;
        *(void **)&function = dlsym(plug, "plug");
        if (function == NULL || function() != 0 || dlclose(plug) != 0)
            return 2;
        if (i == 9)
            before = size_now();
    }
    puts(size_now() < before + 25 ? "steady" : "grown");
    return 0;
}
END
cat >"$scratch/main.c" <<'END'
#include "plug.c"
int
main(void)
{
    return plug();
}
END
way=audit
ok 'a program compiles that loads an object again and again' ${CC:-cc} -o "$scratch/cycles" "$scratch/cycles.c" -ldl
ok 'an object without a PLT compiles' ${CC:-cc} -fPIC -fno-plt -shared -o "$scratch/libplug.so" "$scratch/plug.c" \
    "$fake/libcuda.so.1"
ok 'of an object that is unloaded again and again nothing stays' alike "$scratch/cycles" "$scratch/libplug.so"
only_read="-fno-plt -fuse-ld=lld -Wl,-z,rodynamic"
if ${CC:-cc} $only_read -fPIC -shared -o "$scratch/libread.so" "$scratch/plug.c" "$fake/libcuda.so.1" 2>/dev/null; then
    ok 'an object whose dynamic section is only read runs as without' alike "$scratch/cycles" "$scratch/libread.so"
    for kind in '-fPIE -pie' '-fno-pie -no-pie'; do
        ${CC:-cc} $only_read $kind -o "$scratch/main" "$scratch/main.c" "$fake/libcuda.so.1"
        ok "so does a program ($kind)" alike "$scratch/main"
    done
else
    skip 3 'there is no linker that makes dynamic sections which are only read'
fi

# The objects.
is "$($NM -D "$top_builddir/.libs/libtidemark-run.so" "$top_builddir/.libs/libtidemark-dlsym.so" | grep -c -e GLIBC_PRIVATE -e _dl_sym)" \
    0 'the objects need no private function of the C library (HAMi-core 174)'
is "$($NM -D --defined-only "$top_builddir/.libs/libtidemark-run.so" | grep -c -v ' tidemark_run_')" 0 \
    'the preloaded object shadows no name of the program'
is "$($NM -D --undefined-only "$top_builddir/.libs/libtidemark-audit.so")" '' 'the auditor needs no library'
is "$(readelf -dW "$top_builddir/.libs/libtidemark-audit.so" | grep -c NEEDED)" 0 'the auditor loads no library'
is "$(readelf -lW "$top_builddir/.libs/libtidemark-audit.so" | grep -c ' TLS ')" 0 'the auditor has no thread-local storage'
sed -n 's/^FUNCTION(\([A-Za-z0-9_]*\),.*/\1/p' "$top_srcdir/src/process/functions.def" | LC_ALL=C sort >"$scratch/wanted"
$NM -D --defined-only "$top_builddir/.libs/libtidemark-run.so" | sed -n 's/.* tidemark_run_\(cu.*\)/\1/p' |
    grep -v '^cuGetProcAddress' | LC_ALL=C sort >"$scratch/stubs"
ok 'each function of the account has a stub, and each stub is of the account' diff "$scratch/wanted" "$scratch/stubs"

# Refusals, with their codes.
RUN_REFUSE=cuMemAlloc_v2
export RUN_REFUSE
run -- "$programs/reach" handle
is "$said" 'handle: 2 2 0 0 0 0 1073741824' 'a refusal is CUDA_ERROR_OUT_OF_MEMORY (HAMi-core 55)'
unset RUN_REFUSE

# What cannot be recorded.
RUN_START_FAILS=1
export RUN_START_FAILS
run -- "$programs/reach" handle
is "$status $(echo "$said" | grep -c 'tidemark: nothing is recorded: the stand-in was told to fail') $(echo "$said" | wc -l)" \
    '0 1 2' 'where the account cannot be started one line says so, and the program goes on'
unset RUN_START_FAILS
TIDEMARK_LIBRARY=$module run -- "$programs/reach" handle
is "$status $(echo "$said" | grep -c 'nothing is recorded: .*tide_process_start') $(echo "$said" | wc -l)" '0 1 2' \
    'a library that is not Tidemark is reported in one line, and the program goes on'
TIDEMARK_LIBRARY=$scratch/none run -- "$programs/reach" handle
is "$status" 2 'a library that is not there is wrong use'

# Environment.
run -o t-%p.db --limit 8GiB --stack 'log | statistics' -- "$programs/reach" handle
is "$(sed -n 's/^[0-9]* start //p' "$RUN_CALLS")" \
    "stack=log | statistics trace=$scratch/t-%p.db limit=8GiB budget=- log=-" 'the account gets the options'
run --budget jobs=16GiB --callstack=native -- "$programs/reach" handle
is "$(sed -n 's/^[0-9]* start //p' "$RUN_CALLS")" \
    "stack=- trace=$scratch/tidemark-%p.db limit=- budget=jobs=16GiB log=callstack=32" \
    'the trace is tidemark-%p.db in the working folder unless another is named'
mkdir "$scratch/50%"
: >"$RUN_CALLS"
(cd "$scratch/50%" && "$tidemark" run -- sh -c "cd /; exec '$programs/reach' handle" >/dev/null)
has_words "$(cat "$RUN_CALLS")" "trace=$scratch/50%%/tidemark-%p.db" \
    "a working folder's percent sign is itself, and the program may go elsewhere"
seen=$(LD_PRELOAD=$objects/libother.so LD_AUDIT=$objects/libauditor.so "$tidemark" run -- env)
is "$(echo "$seen" | grep -c -e "^LD_PRELOAD=$objects/libother.so:$top_builddir/.libs/libtidemark-run.so\$" \
    -e "^LD_AUDIT=$top_builddir/.libs/libtidemark-audit.so:$objects/libauditor.so\$")" 2 \
    "other objects stay in LD_PRELOAD, before Tidemark's, and in LD_AUDIT, behind it"
RUN_AUDITOR=$scratch/auditor
export RUN_AUDITOR
for program in linked linked-now linked-no-plt; do
    rm -f "$RUN_AUDITOR"
    LD_PRELOAD=$objects/libother.so LD_AUDIT=$objects/libauditor.so run -- "$programs/$program"
    is "$status $(count other) $(count cuMemAlloc_v2) $(count cuMemFree_v2) $(ls "$RUN_AUDITOR")" \
        "0 1 1 1 $RUN_AUDITOR" "another preload and another auditor work together with Tidemark's ($program)"
done
unset RUN_AUDITOR
run -- "$tidemark" run --limit 1GiB -- "$programs/reach" handle
is "$calls$(sed -n 's/.*limit=\([^ ]*\) .*/\1/p' "$RUN_CALLS")" "${usual}1GiB" \
    'a run within a run counts once, with the options of the inner one'
run --limit 1GiB -- "$tidemark" run -- "$programs/reach" handle
is "$calls$(sed -n 's/.*limit=\([^ ]*\) .*/\1/p' "$RUN_CALLS")" "$usual-" 'options of an outer run are no options of an inner one'
run -- sh -c "'$programs/reach' handle; '$programs/reach' handle"
is "$calls $(cut -d' ' -f1 "$RUN_CALLS" | uniq | wc -l)" "$usual$usual 2" 'the children of a program are counted'
run --no-children -- sh -c "'$programs/reach' handle; env | grep -c -e TIDEMARK_RUN -e libtidemark"
is "$status $calls$(echo "$said" | tail -n 1)" '1 0' \
    'with --no-children a child is not counted, and its environment is clean'
run --no-children -- sh -c "exec '$programs/reach' exec"
is "$calls" "$usual$usual" 'with --no-children the program is counted also where it executes another in its place'
run --no-children -- "$programs/reach" fork
is "$calls" "$usual" 'with --no-children a child of fork is not counted, and its parent is'
LD_PRELOAD=$objects/libother.so run --no-children -- sh -c 'sh -c "echo \$LD_PRELOAD"'
is "$said" "$objects/libother.so" 'with --no-children another preload stays in the environment of children'
run -- sh -c "unset LD_PRELOAD; exec '$programs/reach' handle"
is "$status $calls$(echo "$said" | grep -c 'LD_PRELOAD has lost libtidemark-run.so') $(echo "$said" | wc -l)" '0 1 2' \
    'a child without LD_PRELOAD says in one line that it is not recorded'
run -- sh -c "unset LD_PRELOAD; exec sh -c 'echo quiet'"
is "$said" quiet 'where it does not load the driver, it says nothing'
# Debian's ldconfig needs no dynamic linker.
if readelf -lW /sbin/ldconfig 2>/dev/null | grep -q LOAD && ! readelf -lW /sbin/ldconfig | grep -q INTERP; then
    run -- sh -c '/sbin/ldconfig --no-such-option; exit 7'
    is "$status $(echo "$said" | grep -c tidemark) $calls" '7 0 ' 'a static program that another one starts runs as without'
else
    skip 1 'there is no static program here'
fi
# Others that look into programs: checkers and profilers, which set the same variables, and debuggers.
is "$(NVTX_INJECTION64_PATH=/a/tool.so CUDA_INJECTION64_PATH=/b/tool.so "$tidemark" run -- env |
    grep -e ^NVTX_INJ -e ^CUDA_INJ | LC_ALL=C sort | tr '\n' ' ')" \
    'CUDA_INJECTION64_PATH=/b/tool.so NVTX_INJECTION64_PATH=/a/tool.so ' 'the injections of another tool stay its own'
run -- sh -c "LD_PRELOAD=$objects/libother.so:\$LD_PRELOAD; export LD_PRELOAD; exec '$programs/linked'"
is "$status $(count other) $(count cuMemAlloc_v2)" '0 1 1' 'a tool that the program puts before Tidemark works with it'
debug="gdb -nx -batch -ex run --args $programs/reach handle"
unset DEBUGINFOD_URLS
if (cd "$scratch" && timeout 60 $debug 2>/dev/null) | grep -q '^handle: '; then
    run -- $debug
    is "$calls$(echo "$said" | grep '^handle: ')" "$usual$("$programs/reach" handle)" \
        'a program that a debugger starts is counted, and runs as without'
else
    skip 1 'there is no debugger that may start a program'
fi
seen=$("$tidemark" run --fine -- env | grep -c -x -e PYTORCH_NO_CUDA_MEMORY_CACHING=1 -e XLA_PYTHON_CLIENT_ALLOCATOR=platform)
is "$seen" 2 "--fine sets the frameworks' variables"
is "$(XLA_PYTHON_CLIENT_ALLOCATOR=bfc "$tidemark" run --fine -- env 2>"$scratch/err" | grep XLA) $(cat "$scratch/err")" \
    'XLA_PYTHON_CLIENT_ALLOCATOR=bfc tidemark run: --fine leaves XLA_PYTHON_CLIENT_ALLOCATOR=bfc as it is' \
    '--fine leaves what the user has set, and says so'
is "$(DEBUGINFOD_URLS=x "$tidemark" run -- env | grep DEBUGINFOD)" DEBUGINFOD_URLS=x "the program gets all of the user's environment"
is "$("$tidemark" run -- sh -c 'test -e /proc/self/fd/0 && echo there || echo closed' <&-)" \
    "$(sh -c 'test -e /proc/self/fd/0 && echo there || echo closed' <&-)" 'a closed descriptor is closed in the program'
for way in $ways; do
    run --interpose=$way -- "$programs/reach" die 0
    is "$status" 2 "the program's own exit status is kept ($way)"
done

# What cannot be run.
cannot() {
    sentence=$1 wanted=$2 words=$3
    shift 3
    run "$@"
    case "$status $(echo "$said" | wc -l) $said" in
    "$wanted 1 "*"$words"*) ok "$sentence" true ;;
    *) ok "$sentence" false || diag "$status: $said" ;;
    esac
}
# header FILE BYTE VALUE: an executable copy of a program with one byte of it changed.
header() {
    cp "$programs/linked" "$1" && printf "$3" | dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
cannot 'no such program: 127' 127 'no-such-program: no such program' -- no-such-program
cannot 'no such path: 127' 127 '/nowhere/program: no such program' -- /nowhere/program
echo 'echo' >"$scratch/plain"
cannot 'a file that is not executable: 126' 126 'Permission denied' -- "$scratch/plain"
cannot 'a folder: 126' 126 'is a directory' -- "$scratch"
header "$scratch/narrow" 4 '\001'
cannot 'a 32-bit program: 126' 126 '32-bit' -- "$scratch/narrow"
header "$scratch/alien" 18 '\363'
cannot 'a program for another processor: 126' 126 'another processor' -- "$scratch/alien"
header "$scratch/static" 56 '\001'
cannot 'a program without a dynamic linker: 126' 126 'linked statically' -- "$scratch/static"
sed 's,/lib64/ld-linux-x86-64.so.2,/lib64/ld-musl-x86-64.so.1,; s,/lib/ld-linux-aarch64.so.1,/lib/ld-musl-aarch64.so.11,' \
    <"$programs/linked" >"$scratch/musl" && chmod +x "$scratch/musl"
cannot 'a program for musl: 126' 126 'musl' -- "$scratch/musl"
script() {
    printf "$2\n" >"$1" && chmod +x "$1"
}
script "$scratch/script" "#!$scratch/static -x"
cannot 'a script whose interpreter is static: 126' 126 'static is linked statically' -- "$scratch/script"
script "$scratch/twice" "#! $scratch/script"
cannot 'a script of a script whose interpreter is static: 126' 126 'static is linked statically' -- "$scratch/twice"
script "$scratch/env" "#!/usr/bin/env -S A=1 $scratch/static"
cannot 'a script that asks env for a static program: 126' 126 'static is linked statically' -- "$scratch/env"
script "$scratch/loop" "#!$scratch/loop"
cannot 'a script that interprets itself: 126' 126 'more than 5 deep' -- "$scratch/loop"
script "$scratch/lost" '#!/nowhere/interpreter'
cannot 'a script whose interpreter is not there: 126' 126 'its interpreter /nowhere/interpreter' -- "$scratch/lost"
if test "$(id -u)" = 0; then
    cp "$programs/linked" "$scratch/setuid" && chown 65534 "$scratch/setuid" && chmod 4755 "$scratch/setuid"
    cannot 'a program with the rights of another user: 126' 126 'setuid' -- "$scratch/setuid"
else
    skip 1 'only root can make a program setuid for another user'
fi
script "$scratch/shell" 'exit 5'
run -- "$scratch/shell"
is "$status" 5 'a script without #! is one of sh, as for shells'
script "$scratch/found" '#!/bin/sh\nexit 6'
PATH=$scratch:$PATH run found
is "$status" 6 'a program is found in PATH, and needs no --'
run -- sh -c 'echo "$@"' sh -o x --limit
is "$said" '-o x --limit' "the program's arguments are its own"
run sh -c 'echo $0' --help
is "$said" '--help' 'the first argument that is no option ends the options'

# Wrong use.
: >"$scratch/there.db"
for wrong in '' '--limit=8Gi true' '--limit=0 true' '--limit=200% true' '--budget=16GiB true' '--budget=a/b=1GiB true' \
    '--budget=a=0 true' '--limit=1GiB --budget=a=1GiB true' '--callstack=perl true' '--interpose=magic true' \
    '--stack=nonsense true' '--stack=pool true' '--stack=log --callstack=python true' '-o t-%x.db true' '-o there.db true' '-o dir/ true' '-o no/dir/t.db --limit=1GiB true' '--nvtx-domain=a,b true' '--fines true'; do
    # shellcheck disable=SC2086 # a list of words
    run $wrong
    is "$status $calls" '2 ' "wrong use is refused before the program starts: $wrong"
done

mkdir "$scratch/gone"
said=$(cd "$scratch/gone" && rmdir "$scratch/gone" && "$tidemark" run -- true 2>&1)
is "$? $said" '2 tidemark run: tidemark-%p.db: the working directory: No such file or directory' \
    'in a working directory that was removed, a trace without a whole path is refused, with the reason'

# A parent that waits.
run --summary -- sh -c 'exit 3'
is "$status $(echo "$said" | grep -c 'no process has told of a trace')" '3 1' '--summary keeps the exit status, and says that there is no trace'
run --summary -- sh -c 'kill -15 $$'
is "$status" 143 '--summary keeps the signal of which the program died'
(
    "$tidemark" run --summary -- sh -c 'trap "exit 9" TERM; echo ready >"$0"; while :; do sleep 0.05; done' "$scratch/ready" 2>/dev/null &
    until test -s "$scratch/ready"; do sleep 0.05; done
    kill -TERM $!
    wait $!
)
is $? 9 '--summary passes signals on to the program'
done_testing
