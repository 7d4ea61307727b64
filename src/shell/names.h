/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host names and their addresses: looked up once, remembered for a while, failures for a moment.
 *
 * Owns:    what it remembers.
 * Bounds:  4,096 names, 8 addresses each.
 */
#ifndef TR_SHELL_NAMES_H
#define TR_SHELL_NAMES_H

#include "wire/address.h"

#include <stdint.h>
#include <uv.h>

struct tr_names;

/* A member of whoever waits. */
struct tr_name_wait {
    struct tr_name_wait *next;
    struct tr_name_wait **link; /* what points to it; NULL: it does not wait */
    unsigned tries;             /* how often it has asked: each time it gets the next address */
    unsigned turn;
    unsigned count; /* of the addresses there are */
    /* NULL: there is no such name, or nobody could say. */
    void (*on_found)(struct tr_name_wait *wait, const struct sockaddr_storage *address);
};

/* NULL: no memory. */
struct tr_names *tr_names_new(uv_loop_t *loop);

/* Calls on_found: at once if the name is known, else later. Addresses take turns. */
void tr_names_find(struct tr_names *names, const char *host, struct tr_name_wait *wait);

/* Waits no more, if it did. */
void tr_names_cancel(struct tr_name_wait *wait);

/* Frees what is remembered; look-ups under way are given up. */
void tr_names_free(struct tr_names *names);

#endif
