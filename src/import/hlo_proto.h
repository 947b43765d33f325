/* Private to the reader of HloModuleProto: hlo_proto_instruction.c reads an instruction with its shape,
 * hlo_proto_schedule.c their order, hlo_proto.c the rest.
 *
 * Messages are walked once for each list that is taken from them, so that a list's numbers stand together whatever the order of
 * the fields. */
#ifndef STW_IMPORT_HLO_PROTO_H
#define STW_IMPORT_HLO_PROTO_H

#include "import/hlo.h"
#include "import/pbwire.h"

typedef struct stw_hlo_proto {
    stw_pb_file file;
    stw_hlo_module *module;
    int32_t scope; /* the computation that is being read */
    stw_error *error;
} stw_hlo_proto;

/* STW_OK unless the wire reader met an error. */
static inline stw_status stw_hlo_proto_state(const stw_hlo_proto *p) { return p->file.failed ? STW_ERROR_INPUT : STW_OK; }

/* Ids (of computations: scope -1) to indices; -1: none. */
stw_status stw_hlo_set_id(stw_hlo_proto *p, int32_t scope, int64_t id, int32_t index, bool *fresh);
int32_t stw_hlo_find_id(const stw_hlo_proto *p, int32_t scope, int64_t id);

/* All numbers of one field as a list. */
stw_status stw_hlo_proto_numbers(stw_hlo_proto *p, stw_pb message, int64_t field, stw_hlo_range *out);
stw_status stw_hlo_proto_instruction(stw_hlo_proto *p, stw_pb message, stw_str bytes, const char *at);
/* What its attributes mean (hlo_proto_meaning.c). */
stw_status stw_hlo_proto_mean(stw_hlo_proto *p, stw_pb message, stw_hlo_instruction *i);
/* Puts the entry's instructions into their scheduled order. */
stw_status stw_hlo_proto_schedule(stw_hlo_proto *p, stw_pb schedule);

#endif
