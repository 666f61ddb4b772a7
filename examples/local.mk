# Small programs that make check builds and runs.
check_PROGRAMS += examples/budget-t examples/own-resource
examples_budget_t_LDADD = libtidemark.la
examples_own_resource_LDADD = libtidemark.la
TESTS += examples/budget-t
