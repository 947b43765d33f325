#include <string.h>

#include "policy/policy.h"

/* Bounds of what is refused as no network; the largest one that passes has some hundred million parameters. */
enum {
    MOST_COLUMNS = 4096,
    MOST_WIDTH = 1024,
    MOST_INNER = 4096,
    MOST_OPERATORS = 65536,
    MOST_IDENTITIES = 1 << 22,
    MOST_CLASSES = 1024,
    MOST_SEGMENT = 65536,
    MOST_NAMES = 64
};
enum { FUSION_CLASSES = 16 };
enum { MOST_LAYERS = 8 }; /* as in policy/net.h; more would not fit the table of parameters */

typedef struct {
    const char *name;
    size_t offset;
    int32_t low, high;
} field;

#define FIELD(name, low, high) \
    { #name, offsetof(stw_policy_config, name), low, high }
static const field fields[] = {
    FIELD(feature_version, 0, INT32_MAX),
    FIELD(unit_columns, 1, MOST_COLUMNS),
    FIELD(feedback_columns, 0, MOST_COLUMNS),
    FIELD(device_columns, 0, MOST_COLUMNS),
    FIELD(pair_columns, 0, MOST_COLUMNS),
    FIELD(operators, 1, MOST_OPERATORS),
    FIELD(operator_width, 1, MOST_WIDTH),
    FIELD(identities, 0, MOST_IDENTITIES),
    FIELD(width, 1, MOST_WIDTH),
    FIELD(pair_width, 0, MOST_WIDTH),
    FIELD(sage_layers, 0, MOST_LAYERS),
    FIELD(attention_layers, 0, MOST_LAYERS),
    FIELD(heads, 1, MOST_WIDTH),
    FIELD(inner, 0, MOST_INNER),
    FIELD(segment, 1, MOST_SEGMENT),
    FIELD(modulation, STW_MODULATION_NONE, STW_MODULATION_ROW),
    FIELD(placement, STW_PLACEMENT_STEER, STW_PLACEMENT_DEVICE),
    FIELD(schedule, STW_SCHEDULE_NUDGE, STW_SCHEDULE_CLASS),
    FIELD(classes, 0, MOST_CLASSES),
    FIELD(score_width, 0, MOST_WIDTH),
    FIELD(fusion, STW_FUSION_HEAD_NONE, STW_FUSION_HEAD_CLASS),
    FIELD(fusion_classes, 0, MOST_CLASSES),
    FIELD(proposal_columns, 0, MOST_COLUMNS),
    FIELD(drafts, 0, STW_MOST_DRAFTS),
    FIELD(device_names, 0, MOST_NAMES),
    FIELD(bare, 0, 1),
};
#undef FIELD
enum { FIELD_COUNT = sizeof fields / sizeof fields[0] };

static int32_t *value_of(const field *f, stw_policy_config *config) { return (int32_t *)(void *)((char *)config + f->offset); }

const char *stw_policy_config_field(int32_t index, stw_policy_config *config, int32_t **value) {
    if (index < 0 || index >= FIELD_COUNT) return NULL;
    if (config != NULL && value != NULL) *value = value_of(&fields[index], config);
    return fields[index].name;
}

bool stw_policy_config_is_optional(int32_t index) {
    return index >= 0 && index < FIELD_COUNT && fields[index].offset >= offsetof(stw_policy_config, fusion);
}

bool stw_policy_preset(const char *name, stw_policy_config *out) {
    static const stw_policy_config standard = {.operators = 128,
                                               .operator_width = 16,
                                               .width = 64,
                                               .pair_width = 32,
                                               .sage_layers = 2,
                                               .attention_layers = 2,
                                               .heads = 4,
                                               .inner = 128,
                                               .segment = 64,
                                               .modulation = STW_MODULATION_GRAPH,
                                               .placement = STW_PLACEMENT_STEER,
                                               .schedule = STW_SCHEDULE_NUDGE,
                                               .score_width = 32};
    static const stw_policy_config paper = {.operators = 128,
                                            .operator_width = 32,
                                            .width = 128,
                                            .pair_width = 0,
                                            .sage_layers = 3,
                                            .attention_layers = 2,
                                            .heads = 8,
                                            .inner = 256,
                                            .segment = 128,
                                            .modulation = STW_MODULATION_GRAPH,
                                            .placement = STW_PLACEMENT_DEVICE,
                                            .schedule = STW_SCHEDULE_CLASS,
                                            .classes = 8,
                                            .score_width = 64,
                                            .drafts = 3,
                                            .device_names = 16};
    const bool gdp = strcmp(name, "gdp") == 0;
    if (strcmp(name, "default") == 0) {
        *out = standard;
    } else if (gdp || strcmp(name, "paper") == 0) {
        *out = paper;
        out->drafts = gdp ? 0 : paper.drafts;
        out->modulation = gdp ? STW_MODULATION_ROW : paper.modulation;
        out->bare = gdp;
    } else {
        return false;
    }
    return true;
}

void stw_policy_add_fusion(stw_policy_config *config) {
    const bool class = config->schedule == STW_SCHEDULE_CLASS;
    config->fusion = class ? STW_FUSION_HEAD_CLASS : STW_FUSION_HEAD_NUDGE;
    config->fusion_classes = class ? FUSION_CLASSES : 0;
}

stw_status stw_policy_config_check(const stw_policy_config *config, stw_error *error) {
    stw_policy_config copy = *config;
    for (int32_t i = 0; i < FIELD_COUNT; i++) {
        const int32_t value = *value_of(&fields[i], &copy);
        if (value < fields[i].low || value > fields[i].high)
            return stw_fail(error, STW_ERROR_INPUT, "the network's %s is %d; it must be %d to %d", fields[i].name, value,
                            fields[i].low, fields[i].high);
    }
    if (config->width % config->heads != 0)
        return stw_fail(error, STW_ERROR_INPUT, "the network's width %d is not a multiple of its heads %d", config->width,
                        config->heads);
    if (config->pair_columns > 0 && config->pair_width == 0)
        return stw_fail(error, STW_ERROR_INPUT, "the network's pair_width is 0 but there are %d pair_columns; set one of them",
                        config->pair_columns);
    if (config->placement == STW_PLACEMENT_DEVICE && (config->device_columns == 0 || config->score_width == 0))
        return stw_fail(error, STW_ERROR_INPUT,
                        "the head `device` needs device_columns and score_width above 0; they are %d and %d",
                        config->device_columns, config->score_width);
    if (config->schedule == STW_SCHEDULE_CLASS && config->classes == 0)
        return stw_fail(error, STW_ERROR_INPUT, "the head `class` needs classes above 0");
    if (config->fusion == STW_FUSION_HEAD_CLASS && config->fusion_classes < 2)
        return stw_fail(error, STW_ERROR_INPUT, "the fusion head `class` needs 2 fusion_classes or more; there are %d",
                        config->fusion_classes);
    const bool choices = config->placement == STW_PLACEMENT_DEVICE && config->schedule == STW_SCHEDULE_CLASS &&
                         config->fusion != STW_FUSION_HEAD_NUDGE;
    if (config->drafts > 1 && !choices)
        return stw_fail(error, STW_ERROR_INPUT, "%d drafts need heads that choose: `device` and `class`", config->drafts);
    if (config->bare != 0 && (config->placement != STW_PLACEMENT_DEVICE || config->fusion != 0 || config->drafts > 1))
        return stw_fail(error, STW_ERROR_INPUT, "a bare network decides the placement alone, by device and in one draft");
    return STW_OK;
}
