/* Private to the writers of HLO text. */
#ifndef STW_EXPORT_HLO_WRITE_TEXT_H
#define STW_EXPORT_HLO_WRITE_TEXT_H

#include "export/hlo/edit.h"
#include "import/hlo/text.h"

typedef struct stw_hlo_out { /* text that grows */
    stw_hlo_edit *edit;
    stw_pb_writer w;
    bool percent; /* names have a percent sign in front */
} stw_hlo_out;

void stw_hlo_put(stw_hlo_out *o, const char *text);
void stw_hlo_put_str(stw_hlo_out *o, stw_str text);
void stw_hlo_put_format(stw_hlo_out *o, const char *format, ...) STW_PRINTF(2, 3); /* up to 119 characters */
void stw_hlo_put_name(stw_hlo_out *o, stw_str name);
void stw_hlo_put_quoted(stw_hlo_out *o, stw_str text);

#endif
