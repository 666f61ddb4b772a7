#!/bin/sh
# Programs built against a smaller and a larger version of every options and figures struct work with this library.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

library=$top_builddir/.libs/libtidemark.so
test -f "$library" || skip_all "there is no shared library in $top_builddir/.libs"
builddir=$(cd "$top_builddir" && pwd)
if test -e "$builddir/tests/fake-cuda/.libs/libcuda.so.1"; then
    LD_LIBRARY_PATH=$builddir/tests/fake-cuda/.libs
    export LD_LIBRARY_PATH
fi

# The structs in the headers that begin with their size.
sized() {
    cat "$top_srcdir"/include/tidemark/*.h |
        "$AWK" '/^struct tide_[a-z_]* \{/ { name = $2 } /^    size_t struct_size;/ { print name }'
}

# headers VARIANT: copies of the headers without comments, in which each of these structs is smaller or larger. A
# smaller one keeps the first half of its fields.
headers() {
    mkdir -p "$scratch/$1/tidemark"
    for header in "$top_srcdir"/include/tidemark/*.h; do
        "$AWK" -v variant="$1" '
            # Without comments.
            {
                line = $0
                text = ""
                while (line != "") {
                    if (inside) {
                        at = index(line, "*/")
                        inside = at == 0
                        line = at == 0 ? "" : substr(line, at + 2)
                    } else {
                        at = index(line, "/*")
                        text = text (at == 0 ? line : substr(line, 1, at - 1))
                        inside = at != 0
                        line = at == 0 ? "" : substr(line, at + 2)
                    }
                }
                sub(/[ \t]+$/, "", text)
                if (text == "") next
            }
            text ~ /^struct tide_[a-z_]* \{$/ { open = 1; count = 0; sized = 0; print text; next }
            open && text == "};" {
                if (!sized) kept = count
                else kept = variant == "smaller" ? 1 + int((count - 1) / 2) : count
                for (i = 1; i <= kept; i++) print field[i]
                if (sized && variant == "larger") print "    uint64_t appended[2];"
                print text
                open = 0
                next
            }
            open { field[++count] = text; if (text ~ /size_t struct_size;/) sized = 1; next }
            { print text }
        ' "$header" >"$scratch/$1/tidemark/$(basename "$header")"
    done
}

# build VARIANT [FLAGS]: build the program with these headers.
build() {
    headers "$1"
    variant=$1
    shift
    # shellcheck disable=SC2086 # CC and CFLAGS may have arguments
    ${CC:-cc} ${CFLAGS:-} -std=c11 -Wall -Wextra -Werror "$@" -I"$scratch/$variant" -o "$scratch/abi-$variant" \
        "$top_srcdir/tests/abi.c" "$library" -Wl,-rpath,"$builddir/.libs"
}

plan 8
structs=$(sized)
missing=
for struct in $structs; do
    grep -q "struct $struct\\b" "$top_srcdir/tests/abi.c" || missing="$missing $struct"
done
is "$missing" '' 'tests/abi.c uses every struct that begins with its size'
ok 'some structs begin with their size' test "$(echo "$structs" | wc -l)" -ge 30
for variant in same smaller larger; do
    flag=-D$(echo "$variant" | tr a-z A-Z)
    ok "a program compiles against headers of $variant structs" build "$variant" "$flag"
    said=$("$scratch/abi-$variant" "$scratch/$variant.db" 2>&1)
    is "$?:$said" 0: "a program with $variant structs works"
done
done_testing
