/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever somebody says who has proven nothing yet: decoded within bounds or refused, and what was
 * decoded is encoded into bytes that decode to the same. */
#include "base/assert.h"
#include "wire/greeting.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t turn(const uint8_t *bytes, size_t size, uint8_t *again)
{
    struct tr_reader in = tr_reader_on(bytes, size);
    struct tr_writer out = tr_writer_on(again, TR_GREETING_MAX);
    struct tr_greeting greeting;
    if (!tr_greeting_get(&in, &greeting))
        return 0;
    TR_ASSERT(greeting.kind != TR_GREETING_CALL || greeting.from.size <= TR_GREETING_NAME);
    tr_greeting_put(&out, &greeting);
    TR_ASSERT(!out.is_full);
    return out.size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t first[TR_GREETING_MAX];
    uint8_t second[TR_GREETING_MAX];
    size_t once = turn(data, size, first);
    if (once == 0)
        return 0;
    size_t twice = turn(first, once, second);
    TR_ASSERT(twice == once && memcmp(first, second, once) == 0);
    return 0;
}
