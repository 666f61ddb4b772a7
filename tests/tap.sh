# TAP for tests in shell: the functions of tests/tap.h under the same names. Source it: . "$top_srcdir/tests/tap.sh"
# The environment has top_srcdir, top_builddir, SQLITE3 (may be empty), NM and AWK; without it, as when a test is
# started by hand, the test runs in the build folder. $scratch is a folder that is removed when the test ends.

: "${top_builddir:=$(pwd)}" "${SQLITE3=$(command -v sqlite3)}" "${NM:=nm}" "${AWK:=awk}"

tap_planned=0
tap_run=0
tap_failed=0
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
trap 'exit 99' HUP INT TERM

# plan COUNT: how many tests will run. First call of a test.
plan() {
    tap_planned=$1
    echo "1..$1"
}

# skip_all REASON: leave the whole test out.
skip_all() {
    echo "1..0 # SKIP $1"
    exit 0
}

# skip COUNT REASON
skip() {
    tap_left=$1
    while test "$tap_left" -gt 0; do
        tap_run=$((tap_run + 1))
        tap_left=$((tap_left - 1))
        echo "ok $tap_run # SKIP $2"
    done
}

diag() {
    printf '%s\n' "$*" | sed 's/^/# /'
}

# ok SENTENCE COMMAND...: whether the command succeeds. Its output is not shown.
ok() {
    tap_sentence=$1
    shift
    tap_run=$((tap_run + 1))
    if "$@" >"$scratch/tap-output" 2>&1 </dev/null; then
        echo "ok $tap_run - $tap_sentence"
        return 0
    fi
    tap_failed=$((tap_failed + 1))
    echo "not ok $tap_run - $tap_sentence"
    diag "failed: $*"
    head -n 20 "$scratch/tap-output" | sed 's/^/#   /'
    return 1
}

# is SEEN WANTED SENTENCE: whether the texts are equal.
is() {
    ok "$3" test "$1" = "$2" || diag "seen \"$1\", wanted \"$2\""
}

# has_words SEEN WORDS SENTENCE: whether the text contains the words.
has_words() {
    case $1 in
    *"$2"*) ok "$3" true ;;
    *) ok "$3" false || diag "seen \"$1\", wanted in it \"$2\"" ;;
    esac
}

# fewer ALL SANITIZED: how many rounds of the same kind a test has: all of them, or fewer in a build with a sanitizer, where
# each takes many times as long and what a sanitizer finds does not depend on their number. In C: FEWER of sanitized.h.
fewer() {
    case " ${CFLAGS-}" in
    *-fsanitize*) echo "$2" ;;
    *) echo "$1" ;;
    esac
}

# done_testing: last call; the exit status of the test.
done_testing() {
    test "$tap_run" -eq "$tap_planned" || diag "$tap_planned tests were planned, $tap_run have run"
    test "$tap_failed" -eq 0 && test "$tap_run" -eq "$tap_planned"
    exit
}
