/* The wanted fields of a message in bytes. */
#include "import/pbfields.h"
#include "import/pbwire.h"

static const stw_wanted_field *find_field(const stw_wanted *wanted, int64_t number) {
    for (int32_t i = 0; i < wanted->count; i++) {
        if (wanted->field[i].number == number) return &wanted->field[i];
    }
    return NULL;
}

/* stw_field_receiver keeps its own errors; the cursor's errors are found at the end by stw_pb_close. */
static stw_status read_message(stw_pb *message, const stw_wanted *wanted, const stw_field_receiver *to);

static stw_status read_field(stw_pb *message, const stw_pb_field *f, const stw_wanted_field *field,
                             const stw_field_receiver *to) {
    stw_error *error = message->file->error;
    if (field->type == STW_WANTED_NUMBER) {
        stw_pb_list list = stw_pb_list_of(f);
        for (int64_t value = 0; stw_pb_list_int(message, &list, &value);) {
            TRY(to->number(to->context, field->id, value, error));
        }
        return STW_OK;
    }
    if (field->type == STW_WANTED_TEXT) {
        stw_str value = {0};
        return stw_pb_string(message, f, &value) ? to->text(to->context, field->id, value, error) : STW_OK;
    }
    stw_pb inner = {0};
    if (!stw_pb_enter(message, f, &inner)) return STW_OK;
    TRY(to->begin(to->context, field->id, stw_pb_offset(message->file, f->at), error));
    TRY(read_message(&inner, field->message, to));
    return message->file->failed ? STW_OK : to->end(to->context, field->id, error);
}

static stw_status read_message(stw_pb *message, const stw_wanted *wanted, const stw_field_receiver *to) {
    for (stw_pb_field f = {0}; stw_pb_next(message, &f);) {
        const stw_wanted_field *field = find_field(wanted, f.number);
        if (field != NULL) TRY(read_field(message, &f, field, to));
    }
    return STW_OK;
}

stw_status stw_fields_of_bytes(stw_str bytes, const stw_wanted *wanted, const stw_field_receiver *receiver, stw_error *error) {
    stw_pb_file file = stw_pb_open(bytes, error);
    stw_pb message = stw_pb_message(&file);
    TRY(read_message(&message, wanted, receiver));
    return stw_pb_close(&file);
}
