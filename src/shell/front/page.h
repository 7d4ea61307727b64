/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page that people look at, out of the binary itself: its files, as scripts/embed-page has
 * written them, and what a browser is to know of them.
 */
#ifndef TR_SHELL_FRONT_PAGE_H
#define TR_SHELL_FRONT_PAGE_H

#include <stdbool.h>
#include <stddef.h>

struct tr_connection;

struct tr_page_file {
    const char *name; /* with its hash, but for that of index.html; NULL: the last */
    const char *type;
    const char *etag;
    const unsigned char *raw;
    size_t raw_size;
    const unsigned char *packed; /* by gzip */
    size_t packed_size;
};

extern const struct tr_page_file tr_page_files[];

/* Fills the answer to GET /ui/...; `bytes` are those of the request. */
void tr_page_answer(struct tr_connection *connection, const char *bytes);

/* Why a request that a browser sends for a page is refused; NULL: it is not, or no browser sends
 * it. Another origin's page may ask nothing, ours may be told to change nothing. */
const char *tr_page_refusal(const struct tr_connection *connection, const char *bytes);

#endif
