/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Heap order over an array of numbers, compared by the caller: sorting, and taking the first few,
 * in place and without recursion. (libc's qsort may allocate, which the pure layers may not.)
 */
#ifndef TR_BASE_HEAP_H
#define TR_BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when `a` comes before `b`: a strict total order, so that no result depends on the heap's
 * shape. */
typedef bool tr_heap_before(const void *context, uint32_t a, uint32_t b);

/* Sorts all of `items`. */
void tr_heap_sort(uint32_t *items, size_t count, tr_heap_before *before, const void *context);

/* Writes the first `want` of `items` to `first`, in order; `want` <= `count`. `items` is left
 * shuffled. */
void tr_heap_take(uint32_t *items, size_t count, tr_heap_before *before, const void *context,
                  size_t want, uint32_t *first);

#endif
