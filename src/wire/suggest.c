/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/suggest.h"

#include "base/assert.h"

#define SIZE_MAX_OF_NAME 40
#define FAR              3 /* letters: from here on it is another name */

/* Small letters, and no signs between words. Returns how many; SIZE_MAX_OF_NAME: too many. */
static size_t squeeze(struct tr_span name, char out[SIZE_MAX_OF_NAME])
{
    size_t size = 0;
    for (size_t i = 0; i < name.size && size < SIZE_MAX_OF_NAME; i++) {
        char letter = name.text[i];
        if (letter != '-' && letter != '_')
            out[size++] = (char)(letter >= 'A' && letter <= 'Z' ? letter + 32 : letter);
    }
    return size;
}

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    unsigned most = a < b ? a : b;
    return most < c ? most : c;
}

/* How many letters have to be put in, left out or changed. */
static unsigned distance(const char *a, size_t a_size, const char *b, size_t b_size)
{
    unsigned row[SIZE_MAX_OF_NAME + 1];
    TR_ASSERT(a_size <= SIZE_MAX_OF_NAME && b_size <= SIZE_MAX_OF_NAME);
    for (size_t i = 0; i <= b_size; i++)
        row[i] = (unsigned)i;
    for (size_t k = 1; k <= a_size; k++) {
        unsigned corner = row[0];
        row[0] = (unsigned)k;
        for (size_t i = 1; i <= b_size; i++) {
            unsigned above = row[i];
            row[i] = least(above + 1, row[i - 1] + 1, corner + (a[k - 1] != b[i - 1]));
            corner = above;
        }
    }
    return row[b_size];
}

const char *tr_suggest(struct tr_span name, const char *const *names)
{
    char asked[SIZE_MAX_OF_NAME];
    char known[SIZE_MAX_OF_NAME];
    size_t asked_size = squeeze(name, asked);
    const char *closest = NULL;
    unsigned best = FAR;
    for (; *names != NULL; names++) {
        struct tr_span text = {*names, strlen(*names)};
        size_t known_size = squeeze(text, known);
        unsigned away = distance(asked, asked_size, known, known_size);
        if (away < best && away < known_size) {
            best = away;
            closest = *names;
        }
    }
    return closest;
}
