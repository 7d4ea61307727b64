/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When what a turn of the loop has gathered goes out, to the peers and to the log.
 *
 * Larger batches cost less: at a rate at which requests come one by one, each would be synced and
 * travel alone, and cost four times as much as at full load. So what a turn has gathered rests for
 * a moment, if somebody is there who may ask meanwhile: a crowd, most of which wait for no answer.
 * Who asks again as soon as it is answered would only be kept by a rest. Clients of RESP are not
 * counted: what they ask rests for no crowd.
 *
 * Owns:    the count of clients that asked lately, and of their requests under way.
 */
#ifndef TR_SHELL_REST_H
#define TR_SHELL_REST_H

#include "seam/event.h"

#include <stdbool.h>
#include <stdint.h>

/* Of a client, what this goes by. */
struct tr_rest_client {
    uint32_t asked_in;    /* the period in which it asked last; 0: it has not */
    uint16_t under_way;   /* requests, */
    uint16_t prompt;      /* and those of them that came right after an answer */
    uint64_t answered_us; /* the last one */
};

struct tr_rest {
    bool is_busy;         /* something happened in this turn */
    unsigned gathering;   /* turns that the log's next batch may still wait for more */
    unsigned work;        /* events since the last batch, such as others have sent, */
    unsigned awaited;     /* and those of them that somebody waits for */
    unsigned handed;      /* so many went out last, */
    uint64_t handed_us;   /* and when */
    uint32_t under_way;   /* requests of clients, */
    uint32_t prompt;      /* and those of them that came right after an answer */
    uint32_t period;      /* in which these have asked: */
    uint64_t period_us;   /* its beginning */
    uint32_t askers;      /* clients that had asked before, in this period */
    uint32_t askers_last; /* and in the one before it */
};

void tr_rest_event(struct tr_rest *rest, enum tr_event_kind kind);

/* Somebody waits, who is no client that is counted. */
void tr_rest_awaited(struct tr_rest *rest);

void tr_rest_asked(struct tr_rest *rest, struct tr_rest_client *client, uint64_t now_us);
void tr_rest_answered(struct tr_rest *rest, struct tr_rest_client *client, uint64_t now_us);
/* It will not be answered any more. */
void tr_rest_gone(struct tr_rest *rest, struct tr_rest_client *client);

/* A batch has been committed. The clients that it answers are about to ask again, so the loop looks
 * a few times more before it hands over the next one. */
void tr_rest_committed(struct tr_rest *rest);

/* At the end of a turn. True: it may have slept, and looks once more before anything goes out. */
bool tr_rest_takes(struct tr_rest *rest, uint64_t now_us);

/* Now it goes out. */
void tr_rest_ends(struct tr_rest *rest, uint64_t now_us);

#endif
