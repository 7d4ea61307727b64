/* SPDX-License-Identifier: Apache-2.0 */
/* What every subcommand needs: to say that it was called wrongly, memory or the end, and what a
 * terminal is told. */
#include "base/assert.h"
#include "cli/cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MESSAGE_MAX 2048 /* a longer one is cut */

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

bool tr_is_terminal(void)
{
    return isatty(STDOUT_FILENO) == 1;
}

const char *tr_color(const char *color)
{
    const char *unwanted = getenv("NO_COLOR");
    return tr_is_terminal() && (unwanted == NULL || unwanted[0] == '\0') ? color : "";
}
