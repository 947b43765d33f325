/* What the files of `stowage inspect` share beside cli.h. */
#ifndef STW_CLI_INSPECT_H
#define STW_CLI_INSPECT_H

#include "cli.h"
#include "import/input_shapes.h"

/* inspect_inputs.c: the inputs whose sizes the file leaves open, and how to set them. Nothing where there are none. */
void cli_print_open_inputs(const stw_read_options *reading, stw_arena arena);
void cli_write_open_inputs(const stw_read_options *reading, stw_json_writer *writer, stw_arena arena);

#endif
