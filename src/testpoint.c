/* The function that test points call, in the copy of the library that tests link. */
#include "testpoint.h"

#ifdef TIDEI_TEST_POINTS
_Atomic(tidei_test_point_function) tidei_test_point;
#else
typedef int tidei_testpoint_nothing; /* a file of C holds at least one declaration */
#endif
