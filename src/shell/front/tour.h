/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is asked of all other nodes, one after another, for one client: this node hears what each
 * has answered, and puts it together.
 *
 * Owns:    nothing: a tour is the first member of whoever makes one.
 */
#ifndef TR_SHELL_FRONT_TOUR_H
#define TR_SHELL_FRONT_TOUR_H

#include "shell/auth.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tr_connection;
struct tr_server;

#define TR_TOUR_LINE 8192

struct tr_tour {
    struct tr_server *server;
    uint64_t token; /* of the request */
    uint16_t number;
    uint16_t place;   /* of the node that is asked next */
    uint32_t unheard; /* nodes that did not answer */
    bool asks_others;
    uint64_t nodes;          /* that were up at the beginning, as a number */
    struct tr_rights rights; /* of the client */
    struct tr_span line;     /* of the request, without its version; the caller keeps it */
    /* What a node has answered; it is gone afterwards. */
    void (*hear)(struct tr_tour *tour, struct tr_span body);
    /* All have; NULL: the client is gone. The tour's memory may go. */
    void (*finish)(struct tr_tour *tour, struct tr_connection *connection);
};

/* For the request `number` of a connection; `line` may follow. */
void tr_tour_init(struct tr_tour *tour, struct tr_connection *connection, uint16_t number);

/* Asks the others, or none of them. */
void tr_tour_begin(struct tr_tour *tour, bool asks_others);

/* The client, unless it is gone. */
struct tr_connection *tr_tour_client(const struct tr_tour *tour);

/* The next object of a list that a node has written, which is moved behind it. False: there is
 * none. */
bool tr_tour_object(struct tr_span *list, struct tr_span *object);

/* The numbers of a JSON text in their order; false: it has not as many. */
bool tr_tour_numbers(struct tr_span text, uint64_t *numbers, size_t count);

#endif
