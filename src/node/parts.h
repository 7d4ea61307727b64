/* SPDX-License-Identifier: Apache-2.0 */
/* The rooms of a node, side by side. */
#ifndef TR_NODE_PARTS_H
#define TR_NODE_PARTS_H

#include "base/random.h"
#include "cluster/cluster.h"
#include "cluster/membership.h"
#include "kv/kv.h"
#include "log/log.h"
#include "node/node.h"
#include "pops/pops.h"
#include "quorum/quorum.h"
#include "replication/replication.h"
#include "seam/mutant.h"
#include "timers/timers.h"

enum tr_phase {
    PHASE_NEW,
    PHASE_REPLAYING,
    PHASE_OPENING, /* replayed; waiting for a segment to write to */
    PHASE_READY,
    PHASE_DRAINING,
    PHASE_STOPPED,
    PHASE_REFUSED
};

struct tr_node {
    struct tr_node_config config;
    char address[TR_LOG_ADDRESS_MAX];
    struct tr_random random;
    struct tr_trial trial;
    struct tr_time time;
    bool has_clock;
    enum tr_phase phase;
    tr_mono_ms ready_ms;  /* when it was, for the first time, */
    bool had_keys;        /* and it had keys then */
    bool was_taking_keys; /* in the last step */
    tr_mono_ms drain_ms;
    bool is_stop_logged;
    bool is_copying_keys; /* the log's oldest segment is: its timers are through */

    struct tr_arena arena;
    struct tr_log log;
    struct tr_cluster cluster;
    struct tr_membership membership;
    bool is_view_due;     /* the roster has changed, and the view has yet to */
    bool is_guest;        /* of others, which are about to take it in */
    uint64_t viewed_id;   /* of the roster that the view is of */
    tr_mono_ms viewed_ms; /* since when */
    tr_mono_ms floor_ms;  /* when it asks again that all keys below its floor end */
    uint64_t quiet_id;    /* of the roster: no request of an earlier one is under way */
    struct tr_replication replication;
    struct tr_pops pops;
    struct tr_timers timers;
    struct tr_kv kv;
    struct tr_quorum quorum;
};

#endif
