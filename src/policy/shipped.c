/* The pre-trained policy and the scorer of moves that come with the library, data/policy, as bytes within it: nothing to find at
 * run time. Whoever builds the library without naming a file gets one without what is in it. */
#include "policy/checkpoint.h"

#define STW_SHIPPED(name, file)         \
    __asm__(                            \
        ".pushsection .rodata\n"        \
        ".balign 16\n"                  \
        ".globl " name                  \
        "_begin\n"                      \
        ".hidden " name "_begin\n" name \
        "_begin:\n"                     \
        ".incbin \"" file               \
        "\"\n"                          \
        ".globl " name                  \
        "_end\n"                        \
        ".hidden " name "_end\n" name   \
        "_end:\n"                       \
        ".byte 0\n"                     \
        ".popsection\n")

#ifdef STW_SHIPPED_POLICY
STW_SHIPPED("stw_shipped_policy", STW_SHIPPED_POLICY);
extern const char stw_shipped_policy_begin[], stw_shipped_policy_end[];
stw_str stw_shipped_policy(void) {
    return (stw_str){stw_shipped_policy_begin, stw_shipped_policy_end - stw_shipped_policy_begin};
}
#else
stw_str stw_shipped_policy(void) { return (stw_str){0}; }
#endif

#ifdef STW_SHIPPED_PROPOSALS
STW_SHIPPED("stw_shipped_proposals", STW_SHIPPED_PROPOSALS);
extern const char stw_shipped_proposals_begin[], stw_shipped_proposals_end[];
stw_str stw_shipped_proposals(void) {
    return (stw_str){stw_shipped_proposals_begin, stw_shipped_proposals_end - stw_shipped_proposals_begin};
}
#else
stw_str stw_shipped_proposals(void) { return (stw_str){0}; }
#endif
