dnl Find the headers of the CUDA toolkit. Only headers: libcuda and libcupti are loaded at run time, so that one
dnl build works with and without a GPU.

dnl TIDE_CUDA: sets CUDA_CPPFLAGS, cuda_summary and cupti_summary; defines HAVE_CUDA_H and HAVE_CUPTI_H.
AC_DEFUN([TIDE_CUDA], [
AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda=DIR],
        [the CUDA toolkit (default: that of nvcc on PATH, else /usr/local/cuda, else no CUDA)])
AS_HELP_STRING([--without-cuda], [build without CUDA: no driver base])],
    [], [with_cuda=auto])
CUDA_CPPFLAGS=
cuda_version=
cupti_version=
cuda_summary='no: switched off'
cupti_summary='no: it comes with the CUDA toolkit'
AS_IF([test "x$with_cuda" != xno], [
    AC_MSG_CHECKING([for the CUDA toolkit])
    TIDE_CUDA_CANDIDATES
    cuda_summary="no: no usable cuda.h under$cuda_candidates"
    for cuda_dir in $cuda_candidates; do
        TIDE_CUDA_VERSION([cuda.h], [CUDA_VERSION], [$cuda_dir/include], [cuda_version])
        test -n "$cuda_version" && break
    done
    AS_IF([test -n "$cuda_version"], [
        cuda_dir=`cd "$cuda_dir" && pwd`
        cuda_version=`expr $cuda_version / 1000`.`expr $cuda_version % 1000 / 10`
        cuda_summary="$cuda_version in $cuda_dir"
        TIDE_CUDA_FLAG([$cuda_dir/include])
        AC_DEFINE([HAVE_CUDA_H], [1], [Define to 1 where cuda.h was found.])
    ], [test "x$with_cuda" != xauto], [AC_MSG_ERROR([no usable cuda.h under$cuda_candidates (--with-cuda)])])
    AC_MSG_RESULT([$cuda_summary])
])
AS_IF([test -n "$cuda_version"], [
    AC_MSG_CHECKING([for CUPTI])
    cupti_summary="no: no usable cupti.h in $cuda_dir/extras/CUPTI/include or $cuda_dir/include"
    for cupti_dir in "$cuda_dir/extras/CUPTI/include" "$cuda_dir/include"; do
        TIDE_CUDA_VERSION([cupti.h], [CUPTI_API_VERSION], [$cupti_dir], [cupti_version])
        test -n "$cupti_version" && break
    done
    AS_IF([test -n "$cupti_version"], [
        cupti_summary="$cupti_version in $cupti_dir"
        test "$cupti_dir" = "$cuda_dir/include" || TIDE_CUDA_FLAG([$cupti_dir])
        AC_DEFINE([HAVE_CUPTI_H], [1], [Define to 1 where cupti.h was found.])
    ])
    AC_MSG_RESULT([$cupti_summary])
])
dnl NVTX has its memory extension from some toolkit of 12 on.
nvtx_summary='no: it comes with the CUDA toolkit'
AS_IF([test -n "$cuda_version"], [
    nvtx_summary="no: no nvtx3/nvToolsExtMem.h in $cuda_dir/include"
    AS_IF([test -f "$cuda_dir/include/nvtx3/nvToolsExtMem.h"], [
        nvtx_summary="in $cuda_dir/include/nvtx3"
        AC_DEFINE([HAVE_NVTX_MEM], [1], [Define to 1 where nvtx3/nvToolsExtMem.h was found.])
    ])
])
AM_CONDITIONAL([NVTX], [test "x${nvtx_summary#no:}" = "x$nvtx_summary"])
AM_CONDITIONAL([CUDA], [test -n "$cuda_version"])
AM_CONDITIONAL([CUPTI], [test -n "$cupti_version"])
dnl The fake driver of the tests has the declarations of this toolkit.
AM_CONDITIONAL([FAKE_CUDA], [test "0${cuda_version%%.*}" -ge 13 && test "0$cupti_version" -ge 130000])
AC_SUBST([CUDA_CPPFLAGS])
])

dnl Where a toolkit may lie, into cuda_candidates. nvcc is often a link to the toolkit's own.
AC_DEFUN([TIDE_CUDA_CANDIDATES], [
AS_CASE([$with_cuda], [auto|yes], [
    cuda_candidates=
    tide_nvcc=`command -v nvcc 2>/dev/null`
    for tide_file in "$tide_nvcc" "`readlink -f "$tide_nvcc" 2>/dev/null`"; do
        test -z "$tide_file" || cuda_candidates="$cuda_candidates `dirname "$tide_file"`/.."
    done
    cuda_candidates="$cuda_candidates /usr/local/cuda /usr"
], [cuda_candidates=" $with_cuda"])
])

dnl TIDE_CUDA_VERSION(HEADER, MACRO, INCLUDE-DIR, VARIABLE): the number of MACRO where HEADER compiles, else empty.
AC_DEFUN([TIDE_CUDA_VERSION], [
$4=
AS_IF([test -f "$3/$1"], [
    tide_save_CPPFLAGS=$CPPFLAGS
    CPPFLAGS="$CPPFLAGS $CUDA_CPPFLAGS -idirafter $3"
    AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#include <$1>
int unused;]])], [
        AC_LANG_CONFTEST([AC_LANG_SOURCE([[#include <$1>
tide_version $2]])])
        $4=`$CPP -P $CPPFLAGS conftest.$ac_ext 2>/dev/null | $SED -n 's/^tide_version *\(@<:@0-9@:>@@<:@0-9@:>@*\).*/\1/p'`
    ])
    CPPFLAGS=$tide_save_CPPFLAGS
])
])

dnl TIDE_CUDA_FLAG(INCLUDE-DIR): as system headers, whose warnings are not ours; /usr/include is searched anyway.
AC_DEFUN([TIDE_CUDA_FLAG], [{ test "$1" = /usr/include || CUDA_CPPFLAGS="$CUDA_CPPFLAGS -isystem $1"; }])
