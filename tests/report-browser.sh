# One browser for all pages of a test, in REPORT_PAGE_SOCKET; sourced. `driver` is tests/report-page.py.
# What a sanitizer can find is in how a page is made: in such a build the browser opens the first one alone, since the
# pages themselves are those of other builds.
opens=$(fewer all first)

# passes SENTENCE: $scratch/page.html passes its own test at the widths of $widths. $scratch/said has what was said of it.
passes() {
    if test "$opens" = none; then
        ok "it is made, and other builds open it: $1" \
            sh -c 'test -s "$1" && ! grep "Sanitizer\|runtime error" "$2"' - "$scratch/page.html" "$scratch/said"
        return
    fi
    test "$opens" = all || opens=none
    for width in $widths; do
        timeout 300 python3 "$driver" selftest "$scratch/page.html" "$width" >"$scratch/tap-$width" 2>&1 && continue
        ok "$1" false
        grep -v '^ok' "$scratch/tap-$width" | head -n 20 | sed 's/^/#   /'
        return
    done
    ok "$1" true
}

export REPORT_PAGE_SOCKET="$scratch/browser"
python3 "$driver" serve "$REPORT_PAGE_SOCKET" 2>"$scratch/served" &
browser=$!
trap 'kill $browser; wait $browser; rm -rf "$scratch"' EXIT
tries=0
until test -S "$REPORT_PAGE_SOCKET" || test $tries = 600 || ! kill -0 $browser; do
    tries=$((tries + 1))
    sleep 0.1
done
