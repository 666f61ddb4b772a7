dnl Find a library and check that a program links with it; all that is missing is reported at once.

dnl TIDE_LIBRARY(NAME, MODULE, MINIMUM, HEADER, FUNCTION, LIBS, VERSION-MACRO, DEBIAN-PACKAGE)
dnl Sets NAME_CFLAGS, NAME_LIBS, NAME_version and NAME_source: the flags that were given, else pkg-config's for
dnl MODULE, else LIBS and the default paths. A module that pkg-config does not know may still lie there.
AC_DEFUN([TIDE_LIBRARY], [
AC_ARG_VAR([$1_CFLAGS], [compiler flags for $2, instead of those of pkg-config])
AC_ARG_VAR([$1_LIBS], [linker flags for $2, instead of those of pkg-config])
AC_MSG_CHECKING([for $2 >= $3])
AS_IF([test -n "$$1_CFLAGS$$1_LIBS"], [
    $1_source='from $1_CFLAGS, $1_LIBS'
    test -n "$$1_LIBS" || $1_LIBS='$6'
    TIDE_LIBRARY_PATHS([$1_LIBS])
], [test -n "$PKG_CONFIG" && $PKG_CONFIG --exists '$2' 2>/dev/null], [
    $1_source="from $PKG_CONFIG in `$PKG_CONFIG --variable=libdir $2`"
    $1_CFLAGS=`$PKG_CONFIG --cflags '$2'`
    $1_LIBS=`$PKG_CONFIG --libs '$2'`
], [
    $1_source='on the default paths'
    $1_LIBS='$6'
])
tide_save_CPPFLAGS=$CPPFLAGS
tide_save_LIBS=$LIBS
CPPFLAGS="$CPPFLAGS $$1_CFLAGS"
LIBS="$$1_LIBS $LIBS"
$1_version=
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <$4>]], [[return (void (*)(void))$5 == 0;]])], [
    AC_LANG_CONFTEST([AC_LANG_SOURCE([[#include <$4>
tide_version $7]])])
    $1_version=`$CPP -P $CPPFLAGS conftest.$ac_ext 2>/dev/null | $SED -n 's/^tide_version *"\(@<:@0-9.@:>@*\).*/\1/p'`
])
CPPFLAGS=$tide_save_CPPFLAGS
LIBS=$tide_save_LIBS
AS_IF([test -z "$$1_version"], [
    AC_MSG_RESULT([no])
    tide_missing="$tide_missing $8"
], [AS_VERSION_COMPARE([$$1_version], [$3],
    [AC_MSG_RESULT([no, $$1_version is too old])
    tide_missing="$tide_missing $8(>=$3)"],
    [AC_MSG_RESULT([$$1_version $$1_source])], [AC_MSG_RESULT([$$1_version $$1_source])])
])
])

dnl TIDE_LIBRARY_PATHS(VARIABLE): libtool forgets a library that is named by its path, so name it by its folder.
AC_DEFUN([TIDE_LIBRARY_PATHS], [
tide_words=
for tide_word in $$1; do
    AS_CASE([$tide_word], [/*.so|/*.so.*], [
        tide_word="-L`dirname $tide_word` -Wl,-rpath,`dirname $tide_word` -l:`basename $tide_word`"
    ])
    tide_words="$tide_words $tide_word"
done
$1=$tide_words
])

dnl End configure where a library is missing, with the names of the Debian packages.
AC_DEFUN([TIDE_LIBRARIES_END], [
AS_IF([test -n "$tide_missing"], [AC_MSG_ERROR([libraries are missing. Debian packages:$tide_missing
Install them (./bootstrap does), or say where they lie with NAME_CFLAGS and NAME_LIBS (see ./configure --help).
The command needs smartcols and zlib; --disable-command builds the library without them.])])
])
