/* A policy file: the network's dimensions and tensors, and how far its training is; or a scorer of moves. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cli.h"
#include "method/anneal/scorer.h"
#include "policy/checkpoint.h"
#include "train/trainer.h"

typedef struct policy_head {
    stw_tensor_file file;
    stw_policy_config config;
    int64_t bytes;      /* of the file */
    int64_t parameters; /* numbers that are learnt */
    bool trained;       /* the state of a training is there; then: */
    int64_t updates, evaluations, round;
    char graph[33];     /* its fingerprint; empty: not there */
    double best_step_s; /* NaN: none */
    bool pretrained;    /* it was made for many graphs; then: */
    int64_t seed, all_updates, problems, schedules;
} policy_head;

bool cli_is_policy(stw_str text) {
    return text.length >= STW_TENSOR_MAGIC_BYTES && memcmp(text.p, STW_TENSOR_MAGIC, STW_TENSOR_MAGIC_BYTES) == 0;
}

static bool begins(const char *text, const char *with) { return strncmp(text, with, strlen(with)) == 0; }

static const stw_tensor *find(const stw_tensor_file *file, const char *name, stw_tensor_type type, int64_t cols) {
    const stw_tensor *tensor = stw_tensor_find(file, name);
    return tensor != NULL && tensor->type == type && tensor->rows == 1 && tensor->cols == cols ? tensor : NULL;
}

/* Other versions of the training may keep other things: what is not there is not shown. */
static void read_training(policy_head *head) {
    const stw_tensor *graph = find(&head->file, "train/graph", STW_TENSOR_I32, 8);
    const stw_tensor *numbers = find(&head->file, "train/numbers", STW_TENSOR_F64, STW_TRAINING_NUMBERS);
    int64_t has_best = 0;
    head->trained = stw_tensor_file_dimension(&head->file, "train.update", &head->updates);
    stw_tensor_file_dimension(&head->file, "train.evaluations", &head->evaluations);
    stw_tensor_file_dimension(&head->file, "train.round", &head->round);
    stw_tensor_file_dimension(&head->file, "train.has_best", &has_best);
    if (graph != NULL) memcpy(head->graph, graph->data, sizeof head->graph - 1);
    stw_escape_text(head->graph, sizeof head->graph);
    if (stw_str_of(head->graph).length != 32) head->graph[0] = '\0';
    head->best_step_s = has_best != 0 && numbers != NULL ? ((const double *)numbers->data)[STW_TRAINING_BEST_STEP] : NAN;
}

static void read_pretraining(policy_head *head) {
    const stw_tensor_file *file = &head->file;
    int64_t updates = 0;
    head->schedules = 1;
    head->pretrained = stw_tensor_file_dimension(file, "pretrain.update", &updates);
    if (!head->pretrained) return;
    head->updates = updates;
    stw_tensor_file_dimension(file, "pretrain.evaluations", &head->evaluations);
    stw_tensor_file_dimension(file, "pretrain.updates", &head->all_updates);
    stw_tensor_file_dimension(file, "pretrain.slots", &head->problems);
    stw_tensor_file_dimension(file, "pretrain.seed", &head->seed);
    stw_tensor_file_dimension(file, "pretrain.schedules", &head->schedules);
}

static stw_status read_head(stw_str text, const char *label, stw_arena *arena, policy_head *head, stw_error *error) {
    *head = (policy_head){.bytes = text.length};
    TRY(stw_tensor_file_parse(text, label, arena, &head->file, error));
    const stw_status status = stw_net_config_of(&head->file, &head->config, error);
    if (status != STW_OK) {
        stw_error_prefix(error, label);
        return status;
    }
    for (int32_t k = 0; k < head->file.count; k++) {
        const stw_tensor *tensor = &head->file.tensor[k];
        if (begins(tensor->name, "parameter/")) head->parameters += tensor->rows * tensor->cols;
    }
    read_training(head);
    read_pretraining(head);
    return STW_OK;
}

static const char *placement_word(const policy_head *head) {
    return head->config.placement == STW_PLACEMENT_STEER ? "steer" : "device";
}

static const char *schedule_word(const policy_head *head) {
    return head->config.schedule == STW_SCHEDULE_NUDGE ? "nudge" : "class";
}

/* ---- for people ---- */

static void add_line(cli_table *table, const char *name, const char *text) {
    cli_table_add(table, CLI_PLAIN, "%s", name);
    cli_table_add(table, CLI_PLAIN, "%s", text);
}

static void print_head(policy_head *head, stw_arena arena) {
    static const cli_column columns[] = {{NULL, CLI_LEFT}, {NULL, CLI_LEFT}};
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    cli_table_add(&table, CLI_PLAIN, "version of the format");
    cli_table_add(&table, CLI_PLAIN, "%d", STW_TENSOR_VERSION);
    add_line(&table, "size", cli_bytes((double)head->bytes).text);
    cli_table_add(&table, CLI_PLAIN, "heads");
    cli_table_add(&table, CLI_PLAIN, "placement: %s, schedule: %s", placement_word(head), schedule_word(head));
    if (!head->trained && !head->pretrained) add_line(&table, "training", "none");
    if (head->pretrained) {
        cli_table_add(&table, CLI_PLAIN, "training");
        cli_table_add(&table, CLI_PLAIN, "on many graphs: %s of %s updates of %s problems, %s evaluations, seed %" PRId64,
                      cli_count(head->updates).text, cli_count(head->all_updates).text, cli_count(head->problems).text,
                      cli_count(head->evaluations).text, head->seed);
        add_line(&table, "decides", head->schedules != 0 ? "placement and schedule" : "placement");
    }
    if (head->trained) {
        cli_table_add(&table, CLI_PLAIN, "training");
        cli_table_add(&table, CLI_PLAIN, "%s updates, %s evaluations, round %" PRId64, cli_count(head->updates).text,
                      cli_count(head->evaluations).text, head->round + 1);
    }
    if (head->graph[0] != '\0') add_line(&table, "graph fingerprint", head->graph);
    if (!isnan(head->best_step_s)) add_line(&table, "best step time", cli_time(head->best_step_s, 5).text);
    cli_table_print(&table, stdout);
}

static void print_dimensions(policy_head *head, stw_arena arena) {
    static const cli_column columns[] = {{"dimension", CLI_LEFT}, {"value", CLI_RIGHT}};
    const char *name;
    int32_t *value;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 2);
    for (int32_t k = 0; (name = stw_policy_config_field(k, &head->config, &value)) != NULL; k++)
        add_line(&table, name, cli_count(*value).text);
    printf("\n");
    cli_table_print(&table, stdout);
}

/* Adam's moments have the shapes of the parameters; they are counted and not listed. */
static void print_tensors(const policy_head *head, stw_arena arena) {
    static const cli_column columns[] = {{"tensor", CLI_LEFT}, {"type", CLI_LEFT}, {"rows", CLI_RIGHT}, {"columns", CLI_RIGHT}};
    int32_t moments = 0;
    cli_table table;
    cli_table_begin(&table, &arena, columns, 4);
    for (int32_t k = 0; k < head->file.count; k++) {
        const stw_tensor *tensor = &head->file.tensor[k];
        if (begins(tensor->name, "first/") || begins(tensor->name, "second/")) {
            moments++;
            continue;
        }
        cli_table_add(&table, CLI_PLAIN, "%s", tensor->name);
        cli_table_add(&table, CLI_PLAIN, "%s", stw_tensor_type_name(tensor->type));
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(tensor->rows).text);
        cli_table_add(&table, CLI_PLAIN, "%s", cli_count(tensor->cols).text);
    }
    printf("\n");
    cli_table_print(&table, stdout);
    if (moments > 0) printf("  and %d of Adam's moments, shaped like the parameters; --format json lists all\n", moments);
}

/* ---- for programs ---- */

static void write_dimensions(stw_json_writer *w, policy_head *head) {
    const char *name;
    int32_t *value;
    stw_json_write_key(w, "dimensions");
    stw_json_begin_object(w);
    for (int32_t k = 0; (name = stw_policy_config_field(k, &head->config, &value)) != NULL; k++)
        stw_json_field_int64(w, name, *value);
    stw_json_end_object(w);
}

static void write_training(stw_json_writer *w, const policy_head *head) {
    stw_json_write_key(w, "training");
    if (!head->trained) {
        stw_json_write_null(w);
        return;
    }
    stw_json_begin_object(w);
    stw_json_field_int64(w, "updates", head->updates);
    stw_json_field_int64(w, "evaluations", head->evaluations);
    stw_json_field_int64(w, "round", head->round);
    stw_json_field_text(w, "fingerprint", head->graph[0] == '\0' ? (stw_str){0} : stw_str_of(head->graph));
    stw_json_field_double(w, "best_step_s", head->best_step_s);
    stw_json_end_object(w);
}

static void write_pretraining(stw_json_writer *w, const policy_head *head) {
    stw_json_write_key(w, "pretraining");
    if (!head->pretrained) {
        stw_json_write_null(w);
        return;
    }
    stw_json_begin_object(w);
    stw_json_field_int64(w, "updates", head->updates);
    stw_json_field_int64(w, "all_updates", head->all_updates);
    stw_json_field_int64(w, "problems", head->problems);
    stw_json_field_int64(w, "evaluations", head->evaluations);
    stw_json_field_int64(w, "seed", head->seed);
    stw_json_write_key(w, "schedules");
    stw_json_write_bool(w, head->schedules != 0);
    stw_json_end_object(w);
}

static void write_tensors(stw_json_writer *w, const policy_head *head) {
    stw_json_write_key(w, "tensors");
    stw_json_begin_array(w);
    for (int32_t k = 0; k < head->file.count; k++) {
        const stw_tensor *tensor = &head->file.tensor[k];
        stw_json_newline(w);
        stw_json_begin_object(w);
        stw_json_field_text(w, "name", stw_str_of(tensor->name));
        stw_json_field_text(w, "type", stw_str_of(stw_tensor_type_name(tensor->type)));
        stw_json_field_int64(w, "rows", tensor->rows);
        stw_json_field_int64(w, "columns", tensor->cols);
        stw_json_end_object(w);
    }
    stw_json_end_array(w);
}

static void print_json(policy_head *head) {
    stw_json_writer w;
    stw_json_writer_init(&w, stdout);
    stw_json_begin_object(&w);
    stw_json_field_text(&w, "format", STW_STR("policy"));
    stw_json_field_int64(&w, "version", STW_TENSOR_VERSION);
    stw_json_field_int64(&w, "bytes", head->bytes);
    stw_json_field_int64(&w, "parameters", head->parameters);
    stw_json_field_text(&w, "placement_head", stw_str_of(placement_word(head)));
    stw_json_field_text(&w, "schedule_head", stw_str_of(schedule_word(head)));
    write_dimensions(&w, head);
    write_training(&w, head);
    write_pretraining(&w, head);
    write_tensors(&w, head);
    stw_json_end_object(&w);
    printf("\n");
}

/* ---- what anneal proposes moves by ---- */

static bool is_scorer(stw_str text, stw_arena scratch) {
    stw_tensor_file file;
    int64_t version;
    return stw_tensor_file_parse(text, "", &scratch, &file, NULL) == STW_OK &&
           stw_tensor_file_dimension(&file, "move_features_version", &version);
}

static stw_status show_scorer(const cli_call *call, stw_str text, const char *label, stw_error *error) {
    stw_scorer scorer;
    TRY(stw_scorer_parse(text, label, &scorer, error));
    int32_t used = 0;
    for (int32_t c = 0; c < STW_MOVE_FEATURES; c++) used += scorer.scale[c] > 0.0f;
    if (cli_wants_json(call)) {
        stw_json_writer w;
        stw_json_writer_init(&w, stdout);
        stw_json_begin_object(&w);
        stw_json_field_text(&w, "format", STW_STR("scorer"));
        stw_json_field_int64(&w, "version", STW_TENSOR_VERSION);
        stw_json_field_int64(&w, "parameters", STW_SCORER_WEIGHTS);
        stw_json_field_int64(&w, "move_features_version", STW_MOVE_FEATURES_VERSION);
        stw_json_field_int64(&w, "move_features", STW_MOVE_FEATURES);
        stw_json_field_int64(&w, "used", used);
        stw_json_end_object(&w);
        printf("\n");
        return STW_OK;
    }
    cli_heading("scorer of moves, of %s parameters", cli_count(STW_SCORER_WEIGHTS).text);
    printf("  %d features of a move (version %d), of which it uses %d\n", STW_MOVE_FEATURES, STW_MOVE_FEATURES_VERSION, used);
    return STW_OK;
}

stw_status cli_show_policy(const cli_call *call, stw_str text, const char *label, stw_error *error) {
    stw_arena arena = call->arena;
    policy_head head;
    if (is_scorer(text, arena)) return show_scorer(call, text, label, error);
    TRY(read_head(text, label, &arena, &head, error));
    if (cli_wants_json(call)) {
        print_json(&head);
        return STW_OK;
    }
    cli_heading("policy of %s parameters", cli_count(head.parameters).text);
    print_head(&head, arena);
    print_dimensions(&head, arena);
    print_tensors(&head, arena);
    return STW_OK;
}
