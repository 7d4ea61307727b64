/* SPDX-License-Identifier: Apache-2.0 */
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* write(2), not stdio: the pure layers may not print, and a dying process should not allocate. */
static void say(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
}

_Noreturn void tr_assert_failed(const char *condition, const char *file, int line)
{
    char digits[12];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && at > 0);
    say("tryst: assertion failed: ");
    say(condition);
    say(" (");
    say(file);
    say(":");
    say(digits + at);
    say(")\n");
    abort();
}
