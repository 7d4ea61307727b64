/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst`: finds the subcommand, and sees that what it printed arrived. */
#include "base/assert.h"
#include "cli/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

#define MESSAGE_MAX 2048 /* a longer one is cut */

static const struct {
    const char *name;
    tr_command *run;
} commands[] = {
    {"place", tr_command_place}, {"timer", tr_command_timer},     {"status", tr_command_status},
    {"bench", tr_command_bench}, {"log", tr_command_log},         {"receive", tr_command_receive},
    {"plan", tr_command_plan},   {"cluster", tr_command_cluster},
};

enum tr_exit tr_usage_error(const char *command, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    for (char *at = message; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = '?'; /* what people typed must not break the line, nor talk to the terminal */
    }
    fprintf(stderr, "tryst%s%s: %s\n", command == NULL ? "" : " ", command == NULL ? "" : command,
            message);
    return TR_EXIT_USAGE;
}

void *tr_reallocate(void *memory, size_t count, size_t size)
{
    TR_ASSERT(count > 0 && size > 0);
    void *larger = count > SIZE_MAX / size ? NULL : realloc(memory, count * size);
    if (larger == NULL) {
        fputs("tryst: out of memory\n", stderr);
        exit(TR_EXIT_FAILED);
    }
    return larger;
}

void *tr_allocate(size_t count, size_t size)
{
    void *memory = tr_reallocate(NULL, count > 0 ? count : 1, size);
    memset(memory, 0, count * size);
    return memory;
}

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
    enum tr_exit status = dispatch(argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tryst: cannot write the output: %s\n", strerror(errno));
        return TR_EXIT_FAILED;
    }
    return (int)status;
}
