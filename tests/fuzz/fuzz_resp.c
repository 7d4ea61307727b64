/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of commands, which arrives in pieces of a size that the first byte chooses; each is read
 * as soon as it may be whole. Its arguments are taken for patterns, texts and numbers. */
#include "base/assert.h"
#include "base/integer.h"
#include "resp/glob.h"
#include "resp/resp.h"

#include <stdlib.h>

#define ARGUMENTS 2048

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct tr_resp_command *command, const char *start, const char *end)
{
    int64_t number = 0;
    uint64_t steps = TR_GLOB_STEPS;
    for (uint32_t i = 0; i < command->count; i++) {
        struct tr_span argument = command->arguments[i];
        TR_ASSERT(argument.text >= start && argument.text + argument.size <= end);
        tr_integer_read(argument, &number);
        if (i > 0 && argument.size < 64)
            tr_glob_matches(command->arguments[i - 1], argument, &steps);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tr_span arguments[ARGUMENTS];
    if (size < 2)
        return 0;
    size_t piece = 1 + data[0];
    size_t total = size - 1;
    char *bytes = malloc(total);
    memcpy(bytes, data + 1, total);
    struct tr_resp_command command = {.arguments = arguments, .cap = ARGUMENTS};
    size_t start = 0;
    size_t need = 0;
    for (size_t end = piece; start < total; end += piece) {
        end = end < total ? end : total;
        enum tr_resp_state state = TR_RESP_COMMAND;
        while (start < end && state == TR_RESP_COMMAND && end - start >= need) {
            need = 0;
            state = tr_resp_read(&command, bytes + start, end - start);
            if (state == TR_RESP_COMMAND) {
                TR_ASSERT(command.used > 0 && command.used <= end - start);
                use(&command, bytes + start, bytes + start + command.used);
                start += command.used;
            }
        }
        if (state == TR_RESP_MORE) {
            TR_ASSERT(command.need > end - start);
            need = command.need;
        } else if (state != TR_RESP_COMMAND) {
            TR_ASSERT(state == TR_RESP_ROOM || command.fault != TR_RESP_NO_FAULT);
            break;
        }
        if (end == total)
            break;
    }
    free(bytes);
    return 0;
}
