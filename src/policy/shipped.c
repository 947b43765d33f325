/* The pre-trained policy that comes with the library, data/policy/default.stw, as bytes within it: nothing to find at run time.
 * Whoever builds the library without naming the file gets one without a policy. */
#include "policy/checkpoint.h"

#ifdef STW_SHIPPED_POLICY
__asm__(
    ".pushsection .rodata\n"
    ".balign 16\n"
    ".globl stw_shipped_begin\n"
    ".hidden stw_shipped_begin\n"
    "stw_shipped_begin:\n"
    ".incbin \"" STW_SHIPPED_POLICY
    "\"\n"
    ".globl stw_shipped_end\n"
    ".hidden stw_shipped_end\n"
    "stw_shipped_end:\n"
    ".byte 0\n"
    ".popsection\n");

extern const char stw_shipped_begin[], stw_shipped_end[];

stw_str stw_shipped_policy(void) { return (stw_str){stw_shipped_begin, stw_shipped_end - stw_shipped_begin}; }
#else
stw_str stw_shipped_policy(void) { return (stw_str){0}; }
#endif
