dnl What `tidemark run` loads into programs: objects for the dynamic linker of glibc, with the declarations of cuda.h.

dnl TIDE_RUN: sets run_summary and the conditional RUN. After TIDE_CUDA and TIDE_SANITIZERS.
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
AM_CONDITIONAL([RUN], [test "$run_summary" = yes])
])
