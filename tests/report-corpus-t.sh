# Tests that traces which fuzzing has found have pages of `tidemark report` that pass their own test in headless Chromium.
# A sample of them; REPORT_CORPUS=all takes all (`make check-pages`).
. "$top_srcdir/tests/tap.sh"
tidemark=${TIDEMARK:-$top_builddir/tidemark}
driver=$top_srcdir/tests/report-page.py
# shellcheck disable=SC2034 # for Chromium, which wants a home of its own
export HOME="$scratch"

python3 -c 'import json, tempfile' 2>/dev/null || skip_all 'there is no python3'
python3 "$driver" find >/dev/null || skip_all 'there is no Chromium'
. "$top_srcdir/tests/report-browser.sh"

plan 3
mkdir "$scratch/traces"
"$top_builddir/tests/fuzz/corpus-t" --write-traces "$scratch/traces" "$top_srcdir"/tests/fuzz/corpus/trace/* || exit 99

accepted=0
: >"$scratch/wrong"
for trace in "$scratch"/traces/*.db; do
    "$tidemark" report -o "$trace.html" "$trace" >"$scratch/said" 2>&1
    status=$?
    made=$(test ! -e "$trace.html" || echo made)
    if { test $status = 0 || test $status = 3; } && test -n "$made"; then
        accepted=$((accepted + 1))
    elif test $status != 2 || test -n "$made" || ! test -s "$scratch/said" || grep -q 'user-function' "$scratch/said"; then
        { echo "${trace##*/}: status $status $made" && cat "$scratch/said"; } >>"$scratch/wrong"
    fi
done
ok 'each trace has a page, or none and a reason that its reader understands' test ! -s "$scratch/wrong"
sed 's/^/# /' "$scratch/wrong" | head -n 20
ok 'many of the traces are good enough for a page' test "$accepted" -ge 50

# Every ninth, or all. In a build with a sanitizer one, since the pages are those of other builds.
every=9
case " $CFLAGS" in *-fsanitize*) every=1000 ;; esac
number=0
: >"$scratch/failed"
for page in "$scratch"/traces/*.html; do
    number=$((number + 1))
    test "${REPORT_CORPUS:-}" = all || test $((number % every)) = 4 || continue
    timeout 200 python3 "$driver" selftest "$page" 1600 >"$scratch/tap" 2>&1 && continue
    echo "${page##*/}" >>"$scratch/failed"
    grep -v '^ok' "$scratch/tap" | head -n 10 >>"$scratch/failed"
done
ok 'the pages pass their own test' test ! -s "$scratch/failed"
sed 's/^/# /' "$scratch/failed"
