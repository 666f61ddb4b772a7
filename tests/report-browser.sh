# One browser for all pages of a test, in REPORT_PAGE_SOCKET; sourced. `driver` is tests/report-page.py.
export REPORT_PAGE_SOCKET="$scratch/browser"
python3 "$driver" serve "$REPORT_PAGE_SOCKET" 2>"$scratch/served" &
browser=$!
trap 'kill $browser; wait $browser; rm -rf "$scratch"' EXIT
tries=0
until test -S "$REPORT_PAGE_SOCKET" || test $tries = 600 || ! kill -0 $browser; do
    tries=$((tries + 1))
    sleep 0.1
done
