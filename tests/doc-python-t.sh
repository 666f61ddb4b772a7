#!/bin/sh
# Tests the screen of doc/python.md over the trace that it is of, and that trace against what PyTorch said of the program.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"
test -x "$top_builddir/tidemark" || skip_all 'this build has no command'
charmap=$(LC_ALL=C.UTF-8 locale charmap 2>/dev/null)
cd "$scratch" || exit 99

plan 2
gunzip -c "$top_srcdir/tests/data/torch_gpt2_tags.db.gz" >train.db
screen=$("$AWK" '/^```$/ { fence = !fence; on = 0 } on; fence && /^\$ tidemark peak train.db$/ { on = 1 }' \
    "$top_srcdir/doc/python.md")
if test "$charmap" = UTF-8; then
    seen=$(LC_ALL=C.UTF-8 "$top_builddir/tidemark" peak train.db | sed 's/ *$//' | head -n "$(echo "$screen" | wc -l)")
    is "$seen" "$screen" 'tidemark peak prints what doc/python.md says'
else
    skip 1 'this machine has no UTF-8 locale'
fi
is "$("$top_builddir/tidemark" query --csv train.db "SELECT count(*), (SELECT max(bytes) FROM (
    SELECT sum(delta) OVER (ORDER BY ns, delta) AS bytes FROM (
        SELECT alloc_ns AS ns, size AS delta FROM allocation WHERE layer_id = 1
        UNION ALL SELECT free_ns, -size FROM allocation WHERE layer_id = 1 AND free_ns IS NOT NULL)))
    FROM allocation WHERE layer_id = 1" | tail -n 1)" '4355,8287906836' 'the trace has the allocations and the peak that PyTorch counted'
done_testing
