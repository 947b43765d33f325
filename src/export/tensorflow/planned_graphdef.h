/* Private to the writer of TensorFlow graphs: planned_graphdef.c decides what each node is given, graphdef_bytes.c and
 * graphdef_text.c put it into the file. */
#ifndef STW_EXPORT_TENSORFLOW_PLANNED_GRAPHDEF_H
#define STW_EXPORT_TENSORFLOW_PLANNED_GRAPHDEF_H

#include "export/export.h"
#include "import/tensorflow/graphdef.h"

#define STW_TF_PRIORITY "_stowage_priority" /* TensorFlow passes over attributes with an underscore in front */

typedef struct stw_tf_given {
    stw_str device; /* empty: the node keeps what it has */
    float priority; /* NaN: none */
} stw_tf_given;

/* The file with devices and priorities; `given` is in the order of its nodes. */
stw_status stw_tf_put_bytes(stw_str bytes, const stw_tf_given *given, FILE *out, stw_error *error);
void stw_tf_put_text(stw_str text, const stw_tf_model *model, const stw_tf_given *given, FILE *out);

#endif
