/* The attributes of nodes by name. */
#include "import/graphdef.h"

static const char *const key_names[STW_TF_KEY_COUNT] = {
    [STW_TF_T] = "T",
    [STW_TF_dtype] = "dtype",
    [STW_TF_DstT] = "DstT",
    [STW_TF_Tparams] = "Tparams",
    [STW_TF_Tidx] = "Tidx",
    [STW_TF_out_type] = "out_type",
    [STW_TF_output_type] = "output_type",
    [STW_TF_output_types] = "output_types",
    [STW_TF_shape] = "shape",
    [STW_TF_output_shapes] = "output_shapes",
    [STW_TF__output_shapes] = "_output_shapes",
    [STW_TF__class] = "_class",
    [STW_TF_value] = "value",
    [STW_TF_strides] = "strides",
    [STW_TF_ksize] = "ksize",
    [STW_TF_dilations] = "dilations",
    [STW_TF_padding] = "padding",
    [STW_TF_explicit_paddings] = "explicit_paddings",
    [STW_TF_data_format] = "data_format",
    [STW_TF_transpose_a] = "transpose_a",
    [STW_TF_transpose_b] = "transpose_b",
    [STW_TF_adj_x] = "adj_x",
    [STW_TF_adj_y] = "adj_y",
    [STW_TF_keep_dims] = "keep_dims",
    [STW_TF_num_split] = "num_split",
    [STW_TF_num] = "num",
    [STW_TF_axis] = "axis",
    [STW_TF_squeeze_dims] = "squeeze_dims",
    [STW_TF_begin_mask] = "begin_mask",
    [STW_TF_end_mask] = "end_mask",
    [STW_TF_ellipsis_mask] = "ellipsis_mask",
    [STW_TF_new_axis_mask] = "new_axis_mask",
    [STW_TF_shrink_axis_mask] = "shrink_axis_mask",
    [STW_TF_equation] = "equation",
    [STW_TF_element_dtype] = "element_dtype",
    [STW_TF_num_elements] = "num_elements",
    [STW_TF_f] = "f",
    [STW_TF_function] = "function",
    [STW_TF_cond] = "cond",
    [STW_TF_body] = "body",
    [STW_TF_then_branch] = "then_branch",
    [STW_TF_else_branch] = "else_branch",
    [STW_TF_branches] = "branches",
    [STW_TF_Tout] = "Tout",
    [STW_TF_Targuments] = "Targuments",
};

stw_tf_key stw_tf_key_named(stw_str name) {
    int key = 0;
    while (key < STW_TF_KEY_COUNT && !stw_str_is(name, key_names[key])) key++;
    return (stw_tf_key)key;
}

const char *stw_tf_key_name(stw_tf_key key) { return key_names[key]; }

const stw_tf_attribute *stw_tf_find(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key) {
    for (int64_t i = 0; i < node->attributes.count; i++) {
        const stw_tf_attribute *a = &model->attribute[node->attributes.start + i];
        if (a->key == key) return a;
    }
    return NULL;
}

int64_t stw_tf_number(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key, int64_t otherwise) {
    const stw_tf_attribute *a = stw_tf_find(model, node, key);
    return a != NULL ? a->number : otherwise;
}

stw_str stw_tf_text(const stw_tf_model *model, const stw_tf_node *node, stw_tf_key key) {
    const stw_tf_attribute *a = stw_tf_find(model, node, key);
    return a != NULL ? a->text : (stw_str){0};
}
