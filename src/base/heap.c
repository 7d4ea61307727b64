/* SPDX-License-Identifier: Apache-2.0 */
#include "base/heap.h"

#include "base/assert.h"

/* What orders a heap: `towards_end` puts the last item at the root, for sorting in place. */
struct order {
    tr_heap_before *before;
    const void *context;
    bool towards_end;
};

static bool above(const struct order *order, uint32_t a, uint32_t b)
{
    return order->towards_end ? order->before(order->context, b, a)
                              : order->before(order->context, a, b);
}

static void sift_down(uint32_t *items, size_t count, const struct order *order, size_t hole)
{
    TR_ASSERT(hole < count);
    uint32_t moving = items[hole];
    for (size_t child = 2 * hole + 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && above(order, items[child + 1], items[child]))
            child++;
        if (!above(order, items[child], moving))
            break;
        items[hole] = items[child];
        hole = child;
    }
    items[hole] = moving;
}

static void heapify(uint32_t *items, size_t count, const struct order *order)
{
    for (size_t i = count / 2; i > 0; i--)
        sift_down(items, count, order, i - 1);
}

void tr_heap_sort(uint32_t *items, size_t count, tr_heap_before *before, const void *context)
{
    TR_ASSERT(before != NULL);
    const struct order order = {before, context, .towards_end = true};
    heapify(items, count, &order);
    for (size_t left = count; left > 1; left--) {
        uint32_t last = items[0];
        items[0] = items[left - 1];
        items[left - 1] = last;
        sift_down(items, left - 1, &order, 0);
    }
}

void tr_heap_take(uint32_t *items, size_t count, tr_heap_before *before, const void *context,
                  size_t want, uint32_t *first)
{
    TR_ASSERT(want <= count);
    const struct order order = {before, context, .towards_end = false};
    heapify(items, count, &order);
    for (size_t taken = 0; taken < want; taken++) {
        first[taken] = items[0];
        items[0] = items[--count];
        if (count > 0)
            sift_down(items, count, &order, 0);
    }
}
