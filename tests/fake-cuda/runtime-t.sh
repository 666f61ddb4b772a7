#!/bin/sh
# Tests that the CUDA runtime, shared and static, finds all functions in the fake driver and starts as far as it can.
: "${top_srcdir:=$(dirname "$0")/../..}"
. "$top_srcdir/tests/tap.sh"

include=$(sed -n 's/^CUDA_CPPFLAGS = *-\(isystem \|I\)//p' "$top_builddir/Makefile")
folder=
for lib in "$include/../lib64" "$include/../lib"; do
    test -e "$lib/libcudart.so" && test -e "$lib/libcudart_static.a" && folder=$lib
done
test -n "$folder" || skip_all "the CUDA runtime is not beside the CUDA headers"
case $CFLAGS in
*-fsanitize=*) skip_all "the CUDA runtime is not built with sanitizers" ;;
esac

cat >"$scratch/program.c" <<'END'
#include <cuda_runtime_api.h>
#include <stdio.h>

int
main(void)
{
    int version = 0, count = 0;
    cudaError_t got = cudaDriverGetVersion(&version);

    printf("%d %d\n", (int)got, version);
    printf("%d\n", (int)cudaGetDeviceCount(&count));
    return 0;
}
END
${CC:-cc} -I"$include" "$scratch/program.c" -o "$scratch/shared" -L"$folder" -lcudart -Wl,-rpath,"$folder" \
    >"$scratch/log" 2>&1 || skip_all "no program can be linked with the CUDA runtime"
${CC:-cc} -I"$include" "$scratch/program.c" -o "$scratch/static" "$folder/libcudart_static.a" -ldl -lrt -lpthread \
    >"$scratch/log" 2>&1 || skip_all "no program can be linked with the static CUDA runtime"

# start KIND: run the program on the fake driver.
start() {
    LD_LIBRARY_PATH=$top_builddir/tests/fake-cuda/.libs FAKE_CUDA_TELL=1 "$scratch/$1" >"$scratch/out" 2>"$scratch/tell"
}

# But for those of OpenGL, EGL and VDPAU, and of later versions; the first look-up has an empty name.
all_found() {
    ! grep 'no function' "$scratch/tell" | awk '$NF > 0 && $NF <= 13000 && $4 !~ /GL|Egl|VDPAU/' | grep .
}

version_is() {
    test "$(sed -n 1p "$scratch/out")" = '0 13000'
}

is_refused() {
    test "$(sed -n 2p "$scratch/out")" = 500
}

plan 8
for kind in shared static; do
    ok "the $kind runtime ends without a crash" start $kind
    ok "the $kind runtime finds all functions that it looks up" all_found
    ok "the $kind runtime tells the driver's version" version_is
    ok "the $kind runtime has no device without the export tables" is_refused
done
done_testing
