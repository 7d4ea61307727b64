/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst`: finds the subcommand, and sees that what it printed arrived. */
#include "cli/cli.h"
#include "cli/credentials.h"

#include <errno.h>
#include <string.h>

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

static const struct {
    const char *name;
    tr_command *run;
} commands[] = {
    {"place", tr_command_place},       {"timer", tr_command_timer},
    {"status", tr_command_status},     {"bench", tr_command_bench},
    {"log", tr_command_log},           {"receive", tr_command_receive},
    {"plan", tr_command_plan},         {"cluster", tr_command_cluster},
    {"keyspace", tr_command_keyspace}, {"backup", tr_command_backup},
    {"cron", tr_command_cron},         {"pops", tr_command_pops},
    {"clock", tr_command_clock},       {"import", tr_command_import},
    {"token", tr_command_token},
};

static enum tr_exit help(int argc, char **argv)
{
    const char *command = argc > 2 ? argv[2] : NULL;
    if (argc > 3)
        return tr_usage_error("help", "one command at a time");
    if (!tr_help_print(stdout, command))
        return tr_usage_error("help", "no command %s; 'tryst help' lists them", command);
    return TR_EXIT_OK;
}

static enum tr_exit dispatch(int argc, char **argv)
{
    if (argc < 2) {
        tr_help_print(stderr, NULL);
        return TR_EXIT_USAGE;
    }
    const char *command = argv[1];
    if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
        puts("tryst " TRYST_VERSION);
        return TR_EXIT_OK;
    }
    if (strcmp(command, "help") == 0)
        return help(argc, argv);
    if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0) {
        tr_help_print(stdout, NULL);
        return TR_EXIT_OK;
    }
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(argc - 1, argv + 1);
    }
    return tr_usage_error(NULL, "no command %s; 'tryst --help' lists them", command);
}

int main(int argc, char **argv)
{
    enum tr_exit status = tr_credentials_take(&argc, argv) ? dispatch(argc, argv) : TR_EXIT_USAGE;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tryst: cannot write the output: %s\n", strerror(errno));
        return TR_EXIT_FAILED;
    }
    return (int)status;
}
