/* Private to the reader of HloModuleProto: proto.c reads it, proto_attributes.c says what attributes mean.
 *
 * Messages are walked once for each list that is taken from them, so that a list's numbers stand together whatever the order of
 * the fields. */
#ifndef STW_IMPORT_HLO_PROTO_H
#define STW_IMPORT_HLO_PROTO_H

#include "import/hlo/hlo.h"
#include "import/hlo/hlo_fields.h"
#include "import/wire/pbwire.h"

typedef struct stw_hlo_proto {
    stw_pb_file file;
    stw_hlo_module *module;
    int32_t scope; /* the computation that is being read */
    stw_error *error;
} stw_hlo_proto;

/* STW_OK unless the wire reader met an error. */
static inline stw_status stw_hlo_proto_state(const stw_hlo_proto *p) { return p->file.failed ? STW_ERROR_INPUT : STW_OK; }

/* All numbers of one field as a list. */
stw_status stw_hlo_proto_numbers(stw_hlo_proto *p, stw_pb message, int64_t field, stw_hlo_range *out);
/* What its attributes mean (proto_attributes.c). */
stw_status stw_hlo_proto_mean(stw_hlo_proto *p, stw_pb message, stw_hlo_instruction *i);

#endif
