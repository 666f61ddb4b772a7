dnl Looks for the curses of wide characters.

dnl TIDE_CURSES
dnl Sets CURSES_CFLAGS, CURSES_LIBS and curses_summary, and defines HAVE_NCURSESW, where it is there: by the flags that
dnl were given, by pkg-config, or on the default paths.
AC_DEFUN([TIDE_CURSES], [
AC_ARG_VAR([CURSES_CFLAGS], [compiler flags for ncursesw, instead of those of pkg-config])
AC_ARG_VAR([CURSES_LIBS], [linker flags for ncursesw, instead of those of pkg-config])
AC_MSG_CHECKING([for ncursesw])
AS_IF([test -z "$CURSES_CFLAGS$CURSES_LIBS" && test -n "$PKG_CONFIG" && $PKG_CONFIG --exists ncursesw 2>/dev/null], [
    CURSES_CFLAGS=`$PKG_CONFIG --cflags-only-I ncursesw`
    CURSES_LIBS=`$PKG_CONFIG --libs ncursesw`
])
test -n "$CURSES_LIBS" || CURSES_LIBS='-lncursesw -ltinfo'
tide_save_CPPFLAGS=$CPPFLAGS
tide_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $CURSES_CFLAGS"
LIBS="$CURSES_LIBS $LIBS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <curses.h>]], [[return newterm(0, 0, 0) == 0 || set_escdelay(1);]])], [
    AC_MSG_RESULT([yes])
    AC_DEFINE([HAVE_NCURSESW], [1], [Define to 1 where there is ncursesw.])
    curses_summary='of watch by ncursesw'
], [
    AC_MSG_RESULT([no])
    CURSES_CFLAGS=
    CURSES_LIBS=
    curses_summary='of watch: none, no ncursesw. Debian package: libncurses-dev'
])
CPPFLAGS=$tide_save_CPPFLAGS
LIBS=$tide_save_LIBS
])
