/* What test points call and what tests may set, in the copy of the library that tests link. */
#include "src/sync/testpoint.h"

#ifdef TIDEI_TEST_POINTS
_Atomic(tidei_test_point_function) tidei_test_point;
_Atomic(tidei_test_clock_function) tidei_test_clock;
_Atomic uint64_t tidei_test_patience_ns;
_Atomic uint64_t tidei_test_busy_ns;
_Atomic uint64_t tidei_test_sample_ns;
_Atomic uint64_t tidei_test_quiet_ns;
_Atomic uint64_t tidei_test_slice;
#else
typedef int tidei_testpoint_nothing; /* a file of C holds at least one declaration */
#endif
