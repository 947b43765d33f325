/* Prints what stands behind the operands of an instruction, from the fields of its HloInstructionProto. */
#include "export/hlo_print.h"

static void print_dimensions(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    static const char *const always[] = {"broadcast", "reduce", "transpose", "concatenate", "reverse", "sort"};
    const stw_hlo_ints list = stw_hlo_ints_of(p, i->attributes, HLO_DIMENSIONS);
    if (stw_str_is(i->opcode, "iota")) {
        stw_hlo_put_format(&p->out, ", iota_dimension=%lld", list.count > 0 ? (long long)list.value[0] : 0LL);
        return;
    }
    bool wanted = list.count > 0;
    for (size_t k = 0; k < sizeof always / sizeof always[0]; k++) wanted |= stw_str_is(i->opcode, always[k]);
    if (wanted) stw_hlo_print_list(p, "dimensions", i->attributes, HLO_DIMENSIONS);
}

static void print_precision(stw_hlo_printer *p, stw_str config) {
    static const char *const words[] = {"default", "high", "highest", "packed_nibble"};
    const stw_hlo_ints list = stw_hlo_ints_of(p, config, HLO_PRECISION_OPERAND);
    bool any = false;
    for (int64_t k = 0; k < list.count; k++) any |= list.value[k] > 0 && list.value[k] < 4;
    for (int64_t k = 0; any && k < list.count; k++) {
        stw_hlo_put(&p->out, k == 0 ? ", operand_precision={" : ",");
        stw_hlo_put(&p->out, words[list.value[k] >= 0 && list.value[k] < 4 ? list.value[k] : 0]);
    }
    if (any) stw_hlo_put(&p->out, "}");
}

static void print_operand_layouts(stw_hlo_printer *p, stw_str message) {
    stw_str shape;
    int64_t count = 0;
    const bool is_call = stw_hlo_content(message, HLO_CALL_TARGET).length > 0;
    if (stw_hlo_int_of(message, HLO_CONSTRAINS_LAYOUT) == 0 || !is_call) return;
    stw_hlo_print_key(p, "operand_layout_constraints");
    stw_hlo_put(&p->out, "{");
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, message, HLO_OPERAND_SHAPES, &shape); count++) {
        if (count > 0) stw_hlo_put(&p->out, ", ");
        stw_hlo_print_shape(p, shape, true, 0);
    }
    stw_hlo_put(&p->out, "}");
}

static void print_frontend(stw_hlo_printer *p, stw_str attributes) {
    stw_str entry;
    int64_t count = 0;
    for (stw_hlo_each each = {0}; stw_hlo_next(&each, attributes, HLO_FRONTEND_MAP, &entry); count++) {
        stw_hlo_put(&p->out, count == 0 ? ", frontend_attributes={" : ",");
        stw_hlo_put_str(&p->out, stw_hlo_clean_name(p->arena, stw_hlo_content(entry, HLO_MAP_KEY)));
        stw_hlo_put(&p->out, "=");
        stw_hlo_put_quoted(&p->out, stw_hlo_content(entry, HLO_MAP_VALUE));
    }
    if (count > 0) stw_hlo_put(&p->out, "}");
}

static void print_metadata(stw_hlo_printer *p, stw_str metadata) {
    static const struct {
        int32_t number;
        const char *name;
    } text[] = {{HLO_METADATA_OP_TYPE, "op_type"}, {HLO_METADATA_OP_NAME, "op_name"}, {HLO_METADATA_FILE, "source_file"}};
    bool any = false;
    for (int k = 0; k < 3; k++) {
        const stw_str value = stw_hlo_content(metadata, text[k].number);
        if (value.length == 0) continue;
        stw_hlo_put_format(&p->out, "%s%s=", any ? " " : ", metadata={", text[k].name);
        stw_hlo_put_quoted(&p->out, value);
        any = true;
    }
    const int64_t line = stw_hlo_int_of(metadata, HLO_METADATA_LINE);
    if (line > 0) stw_hlo_put_format(&p->out, "%ssource_line=%lld", any ? " " : ", metadata={", (long long)line);
    if (any || line > 0) stw_hlo_put(&p->out, "}");
}

/* JSON stands bare, if its brackets fit. */
static void print_config(stw_hlo_printer *p, stw_str config) {
    if (config.length == 0) return;
    stw_hlo_print_key(p, "backend_config");
    stw_hlo_text t = {.begin = config.p, .cursor = config.p, .end = config.p + config.length};
    if (config.p[0] == '{' && stw_hlo_value(&t).length == config.length && config.p[config.length - 1] == '}') {
        stw_hlo_put_str(&p->out, config);
    } else {
        stw_hlo_put_quoted(&p->out, config);
    }
}

/* Attributes of single opcodes. */
static void print_own(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes;
    if (i->rule == STW_HLO_PART) {
        stw_hlo_put_format(&p->out, ", index=%lld", (long long)i->number);
    }
    print_dimensions(p, i);
    stw_hlo_print_window(p, stw_hlo_content(message, HLO_WINDOW));
    stw_hlo_print_labels(p, stw_hlo_content(message, HLO_CONVOLUTION_NUMBERS));
    if (stw_str_is(i->opcode, "slice")) stw_hlo_print_slice(p, message);
    stw_hlo_print_padding(p, stw_hlo_content(message, HLO_PADDING));
    stw_hlo_print_numbers(p, i);
    stw_hlo_print_simple(p, i);
    stw_hlo_print_words(p, i);
    print_precision(p, stw_hlo_content(message, HLO_PRECISION));
    stw_hlo_print_collective(p, i);
    stw_hlo_print_calls(p, i);
    print_operand_layouts(p, message);
    stw_hlo_print_operand_aliases(p, message);
    if (stw_str_is(i->opcode, "outfeed")) {
        stw_hlo_print_key(p, "outfeed_shape");
        stw_hlo_print_shape(p, stw_hlo_content(message, HLO_OUTFEED_SHAPE), true, 0);
    }
}

void stw_hlo_print_attributes(stw_hlo_printer *p, const stw_hlo_instruction *i) {
    const stw_str message = i->attributes, thread = stw_hlo_content(message, HLO_ASYNC_THREAD);
    print_own(p, i);
    if (thread.length > 0 && !stw_str_is(thread, "main")) {
        stw_hlo_print_key(p, "async_execution_thread");
        stw_hlo_put_quoted(&p->out, thread);
    }
    if (stw_hlo_field(message, HLO_SHARDING).length > 0) {
        stw_hlo_print_key(p, "sharding");
        stw_hlo_print_sharding(p, stw_hlo_content(message, HLO_SHARDING), 0);
    }
    stw_hlo_print_controls(p, i);
    print_frontend(p, stw_hlo_content(message, HLO_FRONTEND));
    print_metadata(p, stw_hlo_content(message, HLO_METADATA));
    print_config(p, stw_hlo_content(message, HLO_BACKEND_CONFIG));
}
