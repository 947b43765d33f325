/* The training of one policy for many graphs: what `stowage train` does with --corpus. */
#ifndef STW_CLI_TRAIN_MANY_H
#define STW_CLI_TRAIN_MANY_H

#include "cli.h"

int cli_train_many(const cli_call *call); /* returns the exit status */

#endif
