/* Private to the printer of protobufs as HLO text:
 *
 *     print.c         the module, names that can be read back, who is called and who comes before
 *     print_fields.c  what stands behind the operands of an instruction
 *     print_values.c  shapes, constants, who takes part */
#ifndef STW_EXPORT_HLO_PRINT_H
#define STW_EXPORT_HLO_PRINT_H

#include "export/hlo/write_text.h"
#include "import/hlo/hlo_fields.h"

typedef struct stw_hlo_printer {
    stw_hlo_out out;
    const stw_hlo_module *m;
    stw_arena *arena;
} stw_hlo_printer;

/* All numbers of a repeated field, packed or not. */
typedef struct stw_hlo_ints {
    stw_hlo_printer *p;
    int64_t *value; /* (count) */
    int64_t count;
} stw_hlo_ints;
stw_hlo_ints stw_hlo_ints_of(stw_hlo_printer *p, stw_str message, int64_t field);
void stw_hlo_print_ints(stw_hlo_printer *p, const stw_hlo_ints *list, const char *separator);

/* The messages of a repeated field one after the other; start with a zeroed cursor. */
typedef struct stw_hlo_each {
    stw_pb_file file;
    stw_pb fields;
    stw_error ignored;
    bool begun;
} stw_hlo_each;
bool stw_hlo_next(stw_hlo_each *each, stw_str message, int64_t field, stw_str *out);

/* The text with an underscore for each character that names do not have; {NULL, 0}: out of memory. */
stw_str stw_hlo_clean_name(stw_arena *arena, stw_str text);

void stw_hlo_print_shape(stw_hlo_printer *p, stw_str shape, bool with_layout, int32_t depth);
void stw_hlo_print_literal(stw_hlo_printer *p, stw_str literal);
void stw_hlo_print_key(stw_hlo_printer *p, const char *key); /* ", key=" */
void stw_hlo_print_collective(stw_hlo_printer *p, const stw_hlo_instruction *i);
void stw_hlo_print_sharding(stw_hlo_printer *p, stw_str sharding, int32_t depth);
void stw_hlo_print_calls(stw_hlo_printer *p, const stw_hlo_instruction *i);
void stw_hlo_print_controls(stw_hlo_printer *p, const stw_hlo_instruction *i);
void stw_hlo_print_operand_aliases(stw_hlo_printer *p, stw_str instruction);
void stw_hlo_print_attributes(stw_hlo_printer *p, const stw_hlo_instruction *i);
/* {0, 1}: a path through tuples. */
void stw_hlo_print_path(stw_hlo_printer *p, stw_str message, int64_t field);

#endif
