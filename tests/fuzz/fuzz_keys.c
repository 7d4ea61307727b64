/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever a peer says about keys: decoded within bounds or refused, and what was decoded is
 * encoded into bytes that decode to the same. */
#include "base/assert.h"
#include "quorum/frame.h"

#define SIZE ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Decodes `bytes` and encodes them again; 0 if they are no frame. */
static size_t turn(const uint8_t *bytes, size_t size, uint8_t *again)
{
    struct tr_reader in = tr_reader_on(bytes, size);
    struct tr_writer out = tr_writer_on(again, SIZE);
    struct tr_key_frame head;
    struct tr_key_entry entry;
    if (!tr_keys_get_head(&in, &head))
        return 0;
    tr_keys_put_head(&out, &head);
    while (tr_keys_get(&in, &head, head.now_ms, &entry)) {
        size_t before = out.size;
        struct tr_span list = {(const char *)entry.list.at,
                               (size_t)(entry.list.end - entry.list.at)};
        tr_keys_put(&out, &entry, list);
        TR_ASSERT(!out.is_full && out.size - before <= tr_keys_bound(&entry, list));
    }
    return in.is_short ? 0 : out.size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t first[SIZE];
    static uint8_t second[SIZE];
    size_t once = turn(data, size, first);
    if (once == 0)
        return 0;
    size_t twice = turn(first, once, second);
    TR_ASSERT(twice == once && memcmp(first, second, once) == 0);
    return 0;
}
