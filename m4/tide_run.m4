dnl What `tidemark run` loads into programs: objects for the dynamic linker of glibc, with the declarations of cuda.h.

dnl TIDE_RUN: sets run_summary, the conditional RUN, and NO_LOOP_CALLS_CFLAGS, which GCC needs for code without a C
dnl library. After TIDE_CUDA and TIDE_SANITIZERS.
AC_DEFUN([TIDE_RUN], [
AC_CHECK_DECL([LAV_CURRENT], [tide_has_auditors=yes], [tide_has_auditors=no], [[#include <link.h>]])
AC_COMPILE_IFELSE([AC_LANG_SOURCE([[#if !(defined __x86_64__ && defined __LP64__) && !defined __aarch64__
#error
#endif
int unused;]])], [tide_is_known=yes], [tide_is_known=no])
run_summary=yes
test "$tide_is_known" = yes || run_summary='no: only for x86-64 and aarch64'
test "$tide_has_auditors" = yes || run_summary='no: the C library has no auditors'
test "x$enable_sanitizers" = xno || run_summary='no: a sanitizer has to be in the program itself'
test -n "$cuda_version" || run_summary='no: it needs the headers of the CUDA toolkit'
AC_MSG_CHECKING([whether $CC can be kept from making calls of loops])
tide_cflags=$CFLAGS
CFLAGS="$CFLAGS -Werror -fno-tree-loop-distribute-patterns"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [NO_LOOP_CALLS_CFLAGS=-fno-tree-loop-distribute-patterns], [NO_LOOP_CALLS_CFLAGS=])
CFLAGS=$tide_cflags
AC_MSG_RESULT([${NO_LOOP_CALLS_CFLAGS:-by -fno-builtin}])
AC_SUBST([NO_LOOP_CALLS_CFLAGS])
AM_CONDITIONAL([RUN], [test "$run_summary" = yes])
])
