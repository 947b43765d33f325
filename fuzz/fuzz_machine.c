/* Machine files: what is read must survive writing and reading, and be written the same again. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "machine/machine.h"

static void require(bool held) { /* not assert: it must hold in every build */
    if (!held) abort();
}

static char *text_of(const stw_machine *machine, size_t *size) {
    char *text = NULL;
    FILE *file = open_memstream(&text, size);
    require(file != NULL);
    stw_json_writer writer;
    stw_json_writer_init(&writer, file);
    stw_machine_write(machine, &writer);
    require(fclose(file) == 0);
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    stw_error error = {0};
    stw_machine *machine, *again;
    if (stw_machine_parse(data, size, "fuzz", &machine, &error) != STW_OK) {
        require(machine == NULL && error.status != STW_OK && strncmp(error.message, "fuzz: ", 6) == 0);
        require(strchr(error.message, '\n') == NULL);
        return 0;
    }
    size_t first_size, second_size;
    char *first = text_of(machine, &first_size);
    require(stw_machine_parse(first, first_size, "written", &again, &error) == STW_OK);
    require(stw_machine_equal(machine, again) && stw_machine_equal(again, machine));
    char *second = text_of(again, &second_size);
    require(first_size == second_size && memcmp(first, second, first_size) == 0);
    free(second);
    free(first);
    stw_machine_destroy(again);
    stw_machine_destroy(machine);
    return 0;
}

int stw_fuzz_accepts(const uint8_t *data, size_t size) {
    stw_machine *machine;
    const bool accepted = stw_machine_parse(data, size, "fuzz", &machine, NULL) == STW_OK;
    stw_machine_destroy(machine);
    return accepted;
}
