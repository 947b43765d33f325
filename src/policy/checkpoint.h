/* Policy files: tensor files (base/tensor_file.h) of the network's parameters, Adam's moments and whatever else training needs to
 * go on. */
#ifndef STW_POLICY_CHECKPOINT_H
#define STW_POLICY_CHECKPOINT_H

#include "base/tensor_file.h"
#include "policy/policy.h"

/* The net's config as dimensions and its parameters as tensors "parameter/<name>"; with `moments`, "first/<name>",
 * "second/<name>" and the dimension "adam_step". Appends to `file`, whose tensor array has room for all. */
stw_status stw_net_save(stw_net *net, bool moments, stw_arena *arena, stw_tensor_file *file, stw_error *error);
/* The config that a file states. */
stw_status stw_net_config_of(const stw_tensor_file *file, stw_policy_config *out, stw_error *error);
/* Fills the parameters (and moments, where the file has them) of a net of the same config. Bit for bit. */
stw_status stw_net_load(stw_net *net, const stw_tensor_file *file, stw_arena scratch, stw_error *error);
/* The same from a policy for any graph into a net for one: the vectors of its rows become 0, moments stay as they are. */
stw_status stw_net_load_shared(stw_net *net, const stw_tensor_file *file, stw_arena scratch, stw_error *error);

/* The pre-trained policy that comes with the library: the bytes of a file; none if it was built without. */
stw_str stw_shipped_policy(void);
/* Likewise the scorer of moves (method/anneal/scorer.h). */
stw_str stw_shipped_proposals(void);

#endif
