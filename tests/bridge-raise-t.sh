#!/bin/sh
# Tests that a refusal passes through the bridge as an exception: of PyTorch's library where it is loaded, else of C++.
: "${top_srcdir:=$(dirname "$0")/..}"
. "$top_srcdir/tests/tap.sh"

cxx=${CXX:-c++}
library=$top_builddir/.libs/libtidemark.so
test -f "$library" || skip_all "there is no shared library in $top_builddir/.libs"
case " $CFLAGS " in *-fsanitize*) skip_all 'the program would need the sanitizer of the library' ;; esac
echo 'int main() { try { throw 1; } catch (int) {} }' >"$scratch/probe.cc"
$cxx "$scratch/probe.cc" -o "$scratch/probe" 2>/dev/null || skip_all 'there is no compiler for C++'

# What PyTorch's library has of it: a function that throws its own exception.
cat >"$scratch/c10.cc" <<'CODE'
#include <cstdint>
#include <stdexcept>
#include <string>
namespace c10 {
namespace detail {
void torchCheckFail(const char *function, const char *, uint32_t, const char *message);
void torchCheckFail(const char *function, const char *, uint32_t, const char *message)
{
    throw std::runtime_error(std::string(function) + ": " + message);
}
}
}
CODE

# As PyTorch does: calls through std::function, and objects with destructors on the way.
cat >"$scratch/raise.cc" <<'CODE'
#include <cstdio>
#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <thread>
#include <tidemark/tidemark.h>

static int destroyed;
struct Guard {
    ~Guard() { destroyed++; }
};

static const char *attempt(const std::function<void *(size_t, int, void *)> &alloc, size_t bytes)
{
    static char text[600];
    try {
        Guard guard;
        void *pointer = alloc(bytes, 0, nullptr);
        tide_torch_free(pointer, bytes, 0, nullptr);
        return pointer != nullptr ? "memory" : "NULL";
    } catch (const std::bad_alloc &) {
        return "bad_alloc";
    } catch (const std::runtime_error &error) {
        snprintf(text, sizeof(text), "%s", error.what());
        return text;
    }
}

static void *through_cupy(size_t bytes, int device, void *)
{
    return tide_cupy_malloc(nullptr, bytes, device);
}

int main(int, char **argv)
{
    const char *seen = "";
    if (tide_bridge_use(argv[1]) != TIDE_OK)
        return 1;
    printf("torch: %s\n", attempt(tide_torch_alloc, 2 << 20));
    printf("cupy: %s\n", attempt(through_cupy, 2 << 20));
    std::thread([&] { seen = attempt(tide_torch_alloc, 3 << 20); }).join();
    printf("thread: %s\n", seen);
    for (int i = 0; i < 1000; i++)
        attempt(tide_torch_alloc, 2 << 20);
    printf("after: %s\n", attempt(tide_torch_alloc, 1000));
    printf("destroyed: %d\n", destroyed);
    printf("device: %s\n", attempt([](size_t bytes, int, void *) { return tide_torch_alloc(bytes, 99, nullptr); }, 1));
    printf("end: %d\n", (int)tide_bridge_end());
    return 0;
}
CODE

build() {
    $cxx -std=c++11 -shared -fPIC -Wl,-soname,libc10.so "$scratch/c10.cc" -o "$scratch/libc10.so" &&
        $cxx -std=c++11 -I"$top_srcdir/include" "$scratch/raise.cc" -o "$scratch/raise" -L"$top_builddir/.libs" \
            -ltidemark -pthread "-Wl,-rpath,$(cd "$top_builddir/.libs" && pwd)" &&
        $cxx -std=c++11 -I"$top_srcdir/include" "$scratch/raise.cc" -o "$scratch/raise-torch" \
            -L"$top_builddir/.libs" -ltidemark -pthread "-Wl,-rpath,$(cd "$top_builddir/.libs" && pwd)" \
            -Wl,--no-as-needed "$scratch/libc10.so" "-Wl,-rpath,$scratch"
}

# said PROGRAM WORD: what the program printed behind the word.
said() {
    sed -n "s/^$2: //p" "$scratch/$1.out"
}

plan 12
ok 'a program in C++ that catches is built' build
stack="log($scratch/raise.db, overwrite=true) | limit(1MiB) | pool | host"
ok 'a refusal ends no program that catches it' sh -c "'$scratch/raise' '$stack' >'$scratch/plain.out'"
is "$(said plain torch)" bad_alloc 'without PyTorch a refusal is std::bad_alloc'
is "$(said plain cupy)" bad_alloc 'for CuPy a refusal is std::bad_alloc'
ok 'a refusal ends no program of PyTorch that catches it' \
    sh -c "'$scratch/raise-torch' '$stack' >'$scratch/torch.out'"
is "$(said torch torch)" \
    'tide_torch_alloc: CUDA out of memory. limit: 2 MiB request exceeds 1 MiB limit' \
    'with PyTorch a refusal is its exception, with its words first and then those of the layer'
is "$(said torch cupy)" bad_alloc 'for CuPy a refusal is std::bad_alloc, also beside PyTorch'
is "$(said torch thread)" \
    'tide_torch_alloc: CUDA out of memory. limit: 3 MiB request exceeds 1 MiB limit' \
    'on another thread it is the same exception'
is "$(said torch after)" memory 'after a thousand refusals a smaller request is served'
is "$(said torch destroyed)" 1004 'each exception destroys what lies on its way'
is "$(said torch device)" 'tide_torch_alloc: tidemark: bridge: device 99, expected a CUDA ordinal from 0 to 63' \
    'what is no lack of memory is raised with other words'
is "$(said torch end)" 0 'after refusals a use can end: no call of the bridge is still under way'
done_testing
