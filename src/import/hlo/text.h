/* Private to the reader of HLO text: text_attributes.c reads the key=value pairs of an instruction, text.c the rest. */
#ifndef STW_IMPORT_HLO_TEXT_H
#define STW_IMPORT_HLO_TEXT_H

#include "base/vector.h"
#include "import/hlo/hlo.h"
#include "import/hlo/meaning.h"

typedef struct stw_hlo_text {
    const char *begin, *cursor, *end;
    stw_hlo_module *module;
    int32_t scope;       /* the computation that is being read */
    stw_str instruction; /* the one that is being read, for messages; empty: none */
    stw_error *error;
} stw_hlo_text;

/* A piece of text by itself, to look for words and values in. */
static inline stw_hlo_text stw_hlo_text_of(stw_str s) {
    return (stw_hlo_text){.begin = s.p, .cursor = s.p, .end = s.p + s.length};
}

/* Fails at a place in the text, with the instruction that is being read. */
stw_status stw_hlo_text_fail(const stw_hlo_text *t, const char *at, const char *format, ...) STW_PRINTF(3, 4);

void stw_hlo_skip_space(stw_hlo_text *t);                 /* and comments */
bool stw_hlo_accept(stw_hlo_text *t, const char *symbol); /* after white space; moves only if it is there */
stw_status stw_hlo_expect(stw_hlo_text *t, const char *symbol);
stw_str stw_hlo_word(stw_hlo_text *t); /* a name or key, without its %; empty: none */
/* The value of an attribute: up to a comma, white space or closing bracket outside of brackets and strings. */
stw_str stw_hlo_value(stw_hlo_text *t);
/* All numbers of a text as a list. */
stw_status stw_hlo_numbers(stw_hlo_text *t, stw_str text, stw_hlo_range *out);

stw_status stw_hlo_read_shape(stw_hlo_text *t, int32_t depth, stw_hlo_shape *out);
void stw_hlo_skip_shape(stw_hlo_text *t); /* if there is one: what stands in front of operands */

/* The attributes of an instruction whose operands are in place. */
stw_status stw_hlo_read_attributes(stw_hlo_text *t, stw_hlo_instruction *i);
/* Entries of frontend_attributes={a="1",b="2"}, one after the other; begin with what stands between the braces. */
stw_str stw_hlo_between_braces(stw_str value);
bool stw_hlo_next_entry(stw_str *rest, stw_str *entry);
/* Which note an entry is, with its value as it is written; STW_HLO_NOTES: none. */
int stw_hlo_entry_note(stw_str entry, stw_str *value);
/* All notes among them. */
stw_status stw_hlo_text_note(stw_str frontend, stw_arena *arena, stw_hlo_note *out, stw_error *error);
/* The head's input_output_alias. */
stw_status stw_hlo_read_aliases(stw_hlo_text *t, stw_str value);

#endif
