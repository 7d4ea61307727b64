/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options: `--name value`, `--name=value` and `--name`, mixed with operands; `--` ends them.
 */
#ifndef TR_CLI_OPTIONS_H
#define TR_CLI_OPTIONS_H

#include "cli/cli.h"

struct tr_option {
    const char *name;
    bool takes_value;
    int id; /* 0 is no option */
};

struct tr_options {
    const char *command;
    const struct tr_option *table; /* ends with a NULL name */
    int argc;
    char **argv;
    int next;
    bool operands_only;

    /* Of the argument read last. */
    int id;            /* 0: an operand */
    const char *value; /* the option's, or the operand */
};

enum tr_options_step {
    TR_OPTIONS_ONE,  /* an option or operand was read */
    TR_OPTIONS_DONE, /* there are no more */
    TR_OPTIONS_BAD,  /* it was wrong, and said so */
};

struct tr_options tr_options_start(const char *command, const struct tr_option *table, int argc,
                                   char **argv);
enum tr_options_step tr_options_next(struct tr_options *options);

/* A whole number from `least` to `most`; otherwise says so and is false. */
bool tr_option_number(const struct tr_options *options, const char *name, uint64_t least,
                      uint64_t most, uint64_t *number);

#endif
