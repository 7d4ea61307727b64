/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Claims: a pop that has not ended a second after it was handed out is claimed by the node that
 * makes it, and again each second while it waits for its receiver or is under way; one that is made
 * late, at once. Whoever hears of a claim holds back for three seconds. So a slow receiver is not
 * called twice; and nobody waits for the dead, since a claim is void when its node is down or has
 * started anew.
 *
 * A node with more pops under way than it can claim one by one, or with pops that wait for a free
 * flight, says that it has a backlog: those who come after it leave to it all that is due. The same
 * is done for a node that claims more than the table of claims has room for. So a full table, or a
 * full queue, makes pops late and never makes them twice.
 *
 * Owns:    the queue of pops to be claimed; the claims of others are notes of hold.
 */
#ifndef TR_POPS_CLAIM_H
#define TR_POPS_CLAIM_H

#include "pops/pops.h"

/* A pop is handed out, or waits for its destination: claimed unless it has ended by then. */
void tr_claim_later(struct tr_pops *pops, tr_ref ref, const struct tr_head *head);
void tr_claim_flights(struct tr_pops *pops); /* at once: this node stops, or pauses */
void tr_claim_now(struct tr_pops *pops);     /* all, in the next step: a node has come */
void tr_claim_run(struct tr_pops *pops);
tr_mono_ms tr_claim_wake_at(const struct tr_pops *pops);

/* This node has more pops under way than it claims; another one says that it has, or has not. */
bool tr_claim_has_backlog(const struct tr_pops *pops);
void tr_claim_backlog_heard(struct tr_pops *pops, uint16_t peer);

/* Another node makes this pop, or may. */
bool tr_claim_is_held(const struct tr_pops *pops, const struct tr_head *head);

/* When a claim, or a backlog, has last held it back; 0: none has. From then on turns count anew. */
tr_steady_ms tr_claim_held_until(const struct tr_pops *pops, const struct tr_head *head);

#endif
