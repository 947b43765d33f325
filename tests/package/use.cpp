/* The same, in C++. */
#include "use.c"
