/* SPDX-License-Identifier: Apache-2.0 */
#include "kv/scan.h"

#define CURSOR_SHIFT 11    /* a cursor has 53 bits: clients take it for a number with a point */
#define DRAW_LOOKS   10000 /* at keys that have expired, one after the other */

bool tr_kv_is_there(const struct tr_kv *kv, tr_ref ref)
{
    return tr_kv_book_version(&kv->book, ref) >= kv->floor && !tr_kv_book_is_end(&kv->book, ref) &&
           !tr_kv_has_expired(kv, tr_kv_book_expires(&kv->book, ref));
}

void tr_kv_scan(const struct tr_kv *kv, uint64_t cursor, uint32_t count, struct tr_key_page *page)
{
    TR_ASSERT(count > 0 && count <= TR_KEY_PAGE_MAX);
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, cursor << CURSOR_SHIFT);
    tr_ref ref = TR_ARENA_NONE;
    uint64_t last = 0;
    page->count = 0;
    page->cursor = 0;
    page->batch = kv->written_last;
    for (uint32_t seen = 0; tr_index_next(&walk, &ref); seen++) {
        uint64_t place = tr_kv_hash(tr_kv_book_key(&kv->book, ref)) >> CURSOR_SHIFT;
        if (seen >= count && place != last) {
            page->cursor = place;
            return;
        }
        last = place;
        if (tr_kv_is_there(kv, ref) && page->count < sizeof page->refs / sizeof page->refs[0])
            page->refs[page->count++] = ref;
    }
}

void tr_kv_draw(struct tr_kv *kv, struct tr_key_page *page)
{
    page->count = 0;
    page->cursor = 0;
    page->batch = kv->written_last;
    struct tr_index_walk walk = tr_index_seek(&kv->book.index, tr_random_next(kv->random));
    tr_ref ref = TR_ARENA_NONE;
    bool is_round = false;
    for (unsigned i = 0; kv->stats.keys > 0 && i < DRAW_LOOKS; i++) {
        bool is_next = tr_index_next(&walk, &ref);
        if (!is_next && is_round)
            return;
        if (!is_next) {
            walk = tr_index_seek(&kv->book.index, 0);
            is_round = true;
        } else if (tr_kv_is_there(kv, ref)) {
            page->refs[page->count++] = ref;
            return;
        }
    }
}
