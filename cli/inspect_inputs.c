/* `stowage inspect MODEL`: the inputs whose sizes the file leaves open, and how to set them. */
#include "inspect.h"

enum { MAX_ROWS = 20 };

/* Each name of an open dimension once, in the order of the file; at most `room`. */
static int32_t find_names(const stw_read_options *reading, stw_str *out, int32_t room) {
    int32_t count = 0, d = 0;
    int64_t at = 0;
    stw_str name;
    while (count < room && stw_next_open_name(reading, &at, &d, &name)) {
        int32_t k = 0;
        while (k < count && !stw_str_equal(out[k], name)) k++;
        if (k == count) out[count++] = name;
    }
    return count;
}

static int64_t count_open(const stw_read_options *reading) {
    int64_t count = 0;
    for (int64_t k = 0; k < reading->input_count; k++) count += reading->input[k].is_open;
    return count;
}

/* "--shape 'image=1,3,1,1'" of the first open input. */
static void print_example(const stw_read_options *reading) {
    int64_t k = 0;
    while (!reading->input[k].is_open) k++;
    const stw_model_input *input = &reading->input[k];
    char name[100];
    snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(input->name));
    stw_escape_text(name, sizeof name);
    printf("  set them: --shape '%s=", name);
    if (input->rank < 0) printf("N,...");
    for (int32_t d = 0; d < input->rank; d++)
        printf("%s%lld", d > 0 ? "," : "", input->dim[d] < 0 ? 1LL : (long long)input->dim[d]);
    printf("'");
}

void cli_print_open_inputs(const stw_read_options *reading, stw_arena arena) {
    static const cli_column columns[] = {{"open input, its sizes count as 1", CLI_LEFT}, {"shape in the file", CLI_LEFT}};
    const int64_t open = count_open(reading);
    if (open == 0) return;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    int64_t shown = 0;
    for (int64_t k = 0; k < reading->input_count && shown < MAX_ROWS; k++) {
        const stw_model_input *input = &reading->input[k];
        if (!input->is_open) continue;
        shown++;
        cli_table_add(&table, CLI_PLAIN, "%.*s", STW_STR_SHOW(input->name));
        cli_table_add(&table, CLI_PLAIN, "%s", stw_input_text(input, &arena).p);
    }
    printf("\n");
    cli_table_print(&table, stdout);
    if (open > shown) printf("  and %lld more\n", (long long)(open - shown));
    print_example(reading);
    stw_str names[MAX_ROWS];
    const int32_t count = find_names(reading, names, MAX_ROWS);
    for (int32_t k = 0; k < count; k++) {
        char name[100];
        snprintf(name, sizeof name, "%.*s", STW_STR_SHOW(names[k]));
        stw_escape_text(name, sizeof name);
        printf("%s%s=1", k == 0 ? "\n  or by dimension: --shape '" : ";", name);
    }
    printf("%s\n", count > 0 ? "'" : "");
}

static void write_shape(const stw_model_input *input, stw_json_writer *writer) {
    stw_json_write_key(writer, "shape");
    if (input->rank < 0) {
        stw_json_write_null(writer);
        return;
    }
    stw_json_begin_array(writer);
    for (int32_t d = 0; d < input->rank; d++) {
        if (input->dim[d] >= 0) {
            stw_json_write_int64(writer, input->dim[d]);
        } else if (input->dim_name[d].length > 0) {
            stw_json_write_string(writer, input->dim_name[d]);
        } else {
            stw_json_write_null(writer);
        }
    }
    stw_json_end_array(writer);
}

void cli_write_open_inputs(const stw_read_options *reading, stw_json_writer *writer, stw_arena arena) {
    enum { MAX_NAMES = 1000 };
    stw_json_write_key(writer, "open_inputs");
    stw_json_begin_array(writer);
    for (int64_t k = 0; k < reading->input_count; k++) {
        if (!reading->input[k].is_open) continue;
        stw_json_begin_object(writer);
        cli_field_text(writer, "name", reading->input[k].name);
        write_shape(&reading->input[k], writer);
        stw_json_end_object(writer);
    }
    stw_json_end_array(writer);
    stw_str *names = STW_NEW(&arena, stw_str, MAX_NAMES);
    const int32_t count = names != NULL ? find_names(reading, names, MAX_NAMES) : 0;
    stw_json_write_key(writer, "open_dimensions");
    stw_json_begin_array(writer);
    for (int32_t k = 0; k < count; k++) stw_json_write_string(writer, names[k]);
    stw_json_end_array(writer);
}
