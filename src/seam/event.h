/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: what the world tells a node. The daemon takes them from sockets, files and clocks, the
 * simulator draws them.
 *
 * Owns:    nothing. What an event points to is borrowed for the step that it is handed to.
 */
#ifndef TR_SEAM_EVENT_H
#define TR_SEAM_EVENT_H

#include "base/time.h"
#include "seam/command.h"
#include "wire/log.h"
#include "wire/roster.h"
#include "wire/timer_body.h"
#include "wire/timer_id.h"

struct tr_node_config;

struct tr_view_node {
    struct tr_span address;
    enum tr_role role;
    const uint32_t *positions; /* on the ring, of one that joins; none: they are chosen */
    uint32_t position_count;
};

enum tr_event_kind {
    TR_EVENT_TICK,
    TR_EVENT_RECOVERY_STARTED,
    TR_EVENT_REQUEST_RECEIVED,
    TR_EVENT_CALLBACK_ENDED,
    TR_EVENT_LOG_WRITTEN,
    TR_EVENT_SEGMENT_ALLOCATED,
    TR_EVENT_SEGMENT_REFUSED, /* no space */
    TR_EVENT_DRAIN_ASKED,
    TR_EVENT_REBALANCE_ASKED, /* now; a note tells how it went */
    TR_EVENT_CONFIGURED,
    TR_EVENT_ZONES_CHANGED, /* the files of time zones are others */
    TR_EVENT_VIEW_CHANGED,  /* the configuration was read: these are its nodes */
    TR_EVENT_LINK_UP,       /* a connection to another node is there, and proven */
    TR_EVENT_LINK_DOWN,
    TR_EVENT_FRAME_RECEIVED,
    TR_EVENT_FRAME_SENT, /* all that were to be sent on that link are on their way */
};

enum tr_callback_result {
    TR_CALLBACK_ANSWERED,  /* with an HTTP status */
    TR_CALLBACK_UNREACHED, /* no connection, no name, a broken answer */
    TR_CALLBACK_TIMED_OUT,
};

/* Why a receiver was not reached. The numbers stand in records: none changes. */
enum tr_fault {
    TR_FAULT_NONE = 0, /* it was, or what kept it is not known */
    TR_FAULT_DNS = 1,
    TR_FAULT_DENIED = 2,
    TR_FAULT_NODE = 3, /* it is a node of the cluster, which is not called */
    TR_FAULT_REFUSED = 4,
    TR_FAULT_RESET = 5,
    TR_FAULT_ANSWER = 6, /* what it answered is no HTTP */
    TR_FAULT_TIMED_OUT = 7,
    TR_FAULT_TLS = 100, /* and above it what was wrong with its certificate, if that was it */
    TR_FAULT_TLS_MOST = 299,
};

struct tr_event {
    enum tr_event_kind kind;
    tr_mono_ms now_ms;
    tr_wall_ms wall_ms;
    bool has_more; /* events of this turn: let the log gather their entries */
    union {
        /* The segments must stay readable until TR_EFFECT_RECOVERED or TR_EFFECT_REFUSED. */
        struct {
            struct tr_log_segment *segments; /* by number, ascending */
            size_t count;
        } recovery;
        struct {
            uint64_t token;
            enum tr_command command;
            struct tr_timer_text timer;
            const struct tr_timer_body *body; /* of CREATE and REPLACE */
            struct tr_span key;               /* the Idempotency-Key; text NULL: none */
            struct tr_condition condition;    /* of all but CREATE and lists */
            const struct tr_query *query;     /* of lists, and of REDRIVE */
        } request;
        struct {
            uint32_t flight;
            enum tr_callback_result result;
            unsigned status;
            enum tr_fault fault;
            uint64_t retry_after_ms; /* 0: not given */
            uint32_t duration_ms;
        } callback;
        struct {
            uint64_t written; /* everything below this position is as safe as the operator wants */
            uint64_t synced;  /* everything below this one is on disk */
        } log;
        struct {
            uint64_t number;
        } segment;
        const struct tr_node_config *config;
        struct {
            const struct tr_view_node *nodes;
            uint32_t count;
        } view;
        struct {
            uint16_t peer; /* by tr_node_member */
            const uint8_t *bytes;
            size_t size;
        } frame;
    } of;
};

#endif
