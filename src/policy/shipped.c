/* The pre-trained policy and the scorer of moves that come with the library, data/policy, as bytes within it: nothing to find at
 * run time. Whoever builds the library without naming a file gets one without what is in it. */
#include "base/shipped.h"
#include "policy/checkpoint.h"

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
