dnl Find the Python that the package is installed for. It needs no compiler, and nothing of Python's but its place.

dnl TIDE_PYTHON: sets PYTHON, pythondir and python_summary, and the conditional PYTHON_PACKAGE. pythondir lies in the
dnl prefix: the folder of packages there that this Python looks into, if there is one.
AC_DEFUN([TIDE_PYTHON], [
AC_ARG_VAR([PYTHON], [the Python that the package is for, 3.9 or later])
AC_ARG_WITH([python],
    [AS_HELP_STRING([--without-python], [install no Python package])],
    [], [with_python=auto])
AC_ARG_WITH([pythondir],
    [AS_HELP_STRING([--with-pythondir=DIR], [where to install the Python package (default: what PYTHON looks into)])],
    [], [with_pythondir=])
AS_IF([test "x$with_python" = xno], [python_summary='no: switched off'], [
    AC_CHECK_PROGS([PYTHON], [python3 python])
    AC_MSG_CHECKING([where Python packages lie])
    tide_prefix=$prefix
    test "x$tide_prefix" != xNONE || tide_prefix=$ac_default_prefix
    tide_pythondir=`test -z "$PYTHON" || "$PYTHON" - "$tide_prefix" <<'PROGRAM' 2>/dev/null
import site, sys
if sys.version_info < (3, 9):
    sys.exit(1)
prefix = sys.argv[[1]].rstrip('/')
for place in sys.path + site.getsitepackages() + [[site.getusersitepackages()]]:
    if place.startswith(prefix + '/lib') and place.endswith('-packages'):
        break
else:
    place = prefix + '/lib/python%d.%d/site-packages' % sys.version_info[[:2]]
print('$' + '{prefix}' + place[[len(prefix):]])
PROGRAM`
    pythondir=${with_pythondir:-$tide_pythondir}
    AS_IF([test -n "$pythondir"], [python_summary="package in $pythondir"],
        [test "x$with_python" = xauto], [python_summary='no: there is no python3 of 3.9 or later'],
        [AC_MSG_ERROR([no Python of 3.9 or later (--with-python)])])
    AC_MSG_RESULT([$python_summary])
])
AC_SUBST([pythondir])
AM_CONDITIONAL([PYTHON_PACKAGE], [test -n "$pythondir"])
])
