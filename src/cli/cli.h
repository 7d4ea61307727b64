/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The `tryst` command: what its subcommands share.
 *
 * Exit status: 0 done; 1 it could not be done (output that cannot be written, memory); 2 it was
 * asked wrongly, told in one line on standard error.
 */
#ifndef TR_CLI_CLI_H
#define TR_CLI_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum tr_exit {
    TR_EXIT_OK = 0,
    TR_EXIT_FAILED = 1,
    TR_EXIT_USAGE = 2,
};

/* A subcommand: argv[0] is its name. */
typedef enum tr_exit tr_command(int argc, char **argv);

tr_command tr_command_place;
tr_command tr_command_backup;
tr_command tr_command_plan;
tr_command tr_command_clock;
tr_command tr_command_cron;
tr_command tr_command_pops;
tr_command tr_command_keyspace;
tr_command tr_command_import;
tr_command tr_command_token;
tr_command tr_command_timer;
tr_command tr_command_status;
tr_command tr_command_cluster;
tr_command tr_command_bench;
tr_command tr_command_log;
tr_command tr_command_receive;

#if defined(__GNUC__)
#define TR_PRINTF(format_at, arguments_at) __attribute__((format(printf, format_at, arguments_at)))
#else
#define TR_PRINTF(format_at, arguments_at)
#endif

/* Prints `tryst COMMAND: message` and returns TR_EXIT_USAGE. */
TR_PRINTF(2, 3) enum tr_exit tr_usage_error(const char *command, const char *format, ...);

/* Prints a subcommand's help, or the general one for NULL; false if there is no such subcommand. */
bool tr_help_print(FILE *out, const char *command);

/* Memory or the end: prints a line and exits with TR_EXIT_FAILED. */
void *tr_allocate(size_t count, size_t size);
void *tr_reallocate(void *memory, size_t count, size_t size);

/* Whether people look at what is printed. */
bool tr_is_terminal(void);

/* What a terminal is told to change its color by; empty where nobody looks, or wants none
 * (NO_COLOR). */
#define TR_COLOR_NONE   "\033[0m"
#define TR_COLOR_RED    "\033[31m"
#define TR_COLOR_GREEN  "\033[32m"
#define TR_COLOR_YELLOW "\033[33m"
const char *tr_color(const char *color);

/* A JSON string with its quotes; bytes that are no UTF-8 come out as U+FFFD. */
void tr_json_string(FILE *out, const char *text, size_t size);

#endif
