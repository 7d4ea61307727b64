/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The other nodes: links, greetings and heartbeats.
 *
 * A node is up when it has greeted, was heard of within TR_SUSPECT_MS, and hears us: if a link
 * works one way only, both ends know. Being up only speeds things up; it changes no view.
 */
#ifndef TR_CLUSTER_PEER_H
#define TR_CLUSTER_PEER_H

#include "cluster/cluster.h"

void tr_peer_link_up(struct tr_cluster *cluster, uint16_t peer);
void tr_peer_link_down(struct tr_cluster *cluster, uint16_t peer);
void tr_peer_frame_sent(struct tr_cluster *cluster, uint16_t peer);
/* Gives the link up: the other end, or what it sends, is broken. */
void tr_peer_reset(struct tr_cluster *cluster, uint16_t peer, struct tr_effects *out);
/* Likewise, though nothing is wrong: what was said on it so far was not heeded. */
void tr_peer_begin_anew(struct tr_cluster *cluster, uint16_t peer, struct tr_effects *out);

/* A frame came. True: it is none of this room's, and its entries follow in the reader. */
bool tr_peer_receive(struct tr_cluster *cluster, const struct tr_event *event,
                     struct tr_frame *frame, struct tr_reader *reader, struct tr_effects *out);

/* In each step, of each peer: who is up is looked at, */
void tr_peer_look(struct tr_cluster *cluster, uint16_t peer, struct tr_effects *out);
/* and a greeting is sent if there was none. False: nothing more can be sent to it now. */
bool tr_peer_greet(struct tr_cluster *cluster, uint16_t peer, struct tr_effects *out);
void tr_peer_beat(struct tr_cluster *cluster, uint16_t peer, struct tr_effects *out);
/* What the longest of the trips to nodes that are up takes, there and back. */
uint64_t tr_peers_trip(const struct tr_cluster *cluster);

void tr_peers_beat_now(struct tr_cluster *cluster); /* what this node says of itself has changed */
/* At the end of a turn, after heartbeats were sent: when the next one is due. */
void tr_peers_note_beats(struct tr_cluster *cluster);
/* For how long some node that is up has not been sent a heartbeat. */
uint64_t tr_peers_unsaid_ms(const struct tr_cluster *cluster);
/* This node had no time for so long: that it has heard nothing tells nothing of the others. Of one
 * silence a second is excused: a node that gets little time all along is to notice who is dead. */
void tr_peers_excuse(struct tr_cluster *cluster, uint64_t for_ms);
/* When something is to be done for a peer, besides what the rooms above want. */
tr_mono_ms tr_peer_wake_at(const struct tr_cluster *cluster, uint16_t peer);

bool tr_peer_is_up(const struct tr_cluster *cluster, uint16_t member); /* this node is */
/* Up, and with a view: who has none waits to be taken in, has nothing of the cluster's, and heeds
 * nothing that it is sent. */
bool tr_peer_heeds(const struct tr_cluster *cluster, uint16_t member);
/* Up, and neither starting nor stopping: what is new there will pop. */
bool tr_peer_is_serving(const struct tr_cluster *cluster, uint16_t member);
/* It pops, or has said that it is about to: that it does so may not have been heard yet. */
bool tr_peer_is_popping(const struct tr_cluster *cluster, uint16_t member);
/* A member that speaks an older version than this; TR_MEMBER_NONE: of those that are linked none
 * does. */
uint16_t tr_peers_older(const struct tr_cluster *cluster, uint8_t version);
/* The other node has heard of this one, by a view that this one, which knows of itself alone, has
 * yet to hear of. */
bool tr_peer_knows_more(const struct tr_cluster *cluster, uint16_t peer);

#endif
