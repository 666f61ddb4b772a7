dnl Warnings as errors, sanitizers, and what configure says at its end.

dnl TIDE_WERROR: --enable-werror sets WERROR_CFLAGS.
AC_DEFUN([TIDE_WERROR], [
AC_ARG_ENABLE([werror], [AS_HELP_STRING([--enable-werror], [make every warning an error])], [], [enable_werror=no])
WERROR_CFLAGS=
test "x$enable_werror" = xno || WERROR_CFLAGS=-Werror
AC_SUBST([WERROR_CFLAGS])
])

dnl TIDE_SANITIZERS: --enable-sanitizers=LIST is added to CFLAGS, which library, command and tests compile and link
dnl with. Undefined behaviour ends the program, or a test would pass over it. gcc says of each fence that
dnl ThreadSanitizer does not see it (-Wtsan); which fences are meant to be there stands beside them. A compiler is
dnl asked for the warning itself, as gcc takes any -Wno- that it does not know. Without CFLAGS of the user's it is -O1
dnl with lines and no variables: gcc 12 compiles that in half the time of -O2 -g, and the tests run as fast.
AC_DEFUN([TIDE_SANITIZERS], [
AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers=LIST], [build with sanitizers: address,undefined or thread])],
    [], [enable_sanitizers=no])
AS_CASE([$enable_sanitizers], [no], [], [
    AS_IF([test "x$enable_sanitizers" = xyes], [enable_sanitizers=address,undefined])
    AS_IF([test "x$tide_cflags_given$GCC" = xyes], [CFLAGS='-g1 -O1'])
    tide_sanitizers_cflags=$CFLAGS
    CFLAGS="$CFLAGS -Werror -Wtsan"
    AC_MSG_CHECKING([whether $CC knows -Wtsan])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM()], [tide_wtsan=yes], [tide_wtsan=no])
    AC_MSG_RESULT([$tide_wtsan])
    CFLAGS=$tide_sanitizers_cflags
    AS_CASE([$enable_sanitizers:$tide_wtsan], [*thread*:yes], [CFLAGS="$CFLAGS -Wno-tsan"])
    CFLAGS="$CFLAGS -fsanitize=$enable_sanitizers -fno-sanitize-recover=all -fno-omit-frame-pointer"
    AC_MSG_CHECKING([whether programs link with -fsanitize=$enable_sanitizers])
    AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])], [
        AC_MSG_RESULT([no])
        AC_MSG_ERROR([$CC does not link with -fsanitize=$enable_sanitizers])
    ])
])
AM_CONDITIONAL([SANITIZERS], [test "x$enable_sanitizers" != xno])
])

AC_DEFUN([TIDE_SUMMARY], [
command_summary="no: switched off"
AS_IF([test "x$enable_command" != xno], [command_summary="smartcols $SMARTCOLS_version, $SMARTCOLS_source
                    zlib $ZLIB_version, $ZLIB_source
                    screen $curses_summary
                    server $microhttpd_summary"])
AS_ECHO(["
$PACKAGE_STRING
  compiler          $CC $CFLAGS
  CUDA toolkit      $cuda_summary
  CUPTI             $cupti_summary
  NVTX              $nvtx_summary
  SQLite            $SQLITE_version, $SQLITE_source
  libdw             $libdw_summary
  command           $command_summary
  Python            $python_summary
  sqlite3 command   ${SQLITE3:-no: tests of the trace are skipped}
  tidemark run      $run_summary
  sanitizers        $enable_sanitizers
  warnings          $(test -n "$WERROR_CFLAGS" && echo errors || echo warnings)
  installs into     $prefix
"])
])

dnl TIDE_SYMBOL_VERSIONS: EXPORT_LDFLAGS says what is exported: tide_*, with the versions of src/libtidemark.map where
dnl the linker takes such a file (GNU ld, gold, lld), else without.
AC_DEFUN([TIDE_SYMBOL_VERSIONS], [
AC_MSG_CHECKING([whether the linker takes a version script])
tide_save_LDFLAGS=$LDFLAGS
LDFLAGS="$LDFLAGS -shared -fPIC -Wl,--version-script=$srcdir/src/libtidemark.map"
AC_LINK_IFELSE([AC_LANG_SOURCE([[int tide_conftest(void); int tide_conftest(void) { return 0; }]])],
    [tide_symbol_versions=yes], [tide_symbol_versions=no])
LDFLAGS=$tide_save_LDFLAGS
AC_MSG_RESULT([$tide_symbol_versions])
AS_IF([test "x$tide_symbol_versions" = xyes],
    [EXPORT_LDFLAGS='-Wl,--version-script=$(top_srcdir)/src/libtidemark.map'],
    [EXPORT_LDFLAGS="-export-symbols-regex '^tide_'"])
AC_SUBST([EXPORT_LDFLAGS])
AC_SUBST([SYMBOL_VERSIONS], [$tide_symbol_versions])
])
