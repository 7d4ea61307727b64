/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The configuration: files of the original or one of ours, flags, environment.
 *
 * All faults are told at once, a line each. Keys of the original that mean nothing here are taken
 * and named once.
 */
#ifndef TR_SHELL_CONFIG_H
#define TR_SHELL_CONFIG_H

#include "proof/webhook.h"
#include "shell/disk.h"
#include "shell/say.h"

#include <stddef.h>
#include <stdint.h>

#define TR_CONFIG_TEXT  1024
#define TR_CONFIG_VALUE ((uint64_t)1 << 20)

#define TR_CONFIG_DENY     64
#define TR_CONFIG_ADDRESS  256
#define TR_CONFIG_SOURCE   256
#define TR_CONFIG_WEBHOOKS 16

/* Whether TLS is spoken. */
enum tr_tls_mode {
    TR_TLS_OFF,
    TR_TLS_TAKEN, /* beside plain connections */
    TR_TLS_REQUIRED,
};

/* Another node, or this one, and what becomes of it. */
struct tr_config_node {
    char address[TR_CONFIG_ADDRESS];
    enum tr_role role;
};

/* A network: an address and how many of its bits count. */
struct tr_network {
    uint8_t address[16];
    uint8_t bits;
    bool is_ipv6;
};

/* Secrets by which callbacks are signed. */
struct tr_config_webhook {
    char origin[TR_CONFIG_ADDRESS]; /* of the receivers they are for; empty: of all others */
    char file[TR_CONFIG_TEXT];
    struct tr_webhook_keys keys;
};

struct tr_config {
    /* [http] */
    char bind_address[TR_CONFIG_ADDRESS];
    uint64_t bind_port;

    /* [resp] */
    bool has_resp;
    uint64_t resp_port; /* a second one, for RESP alone; 0: there is none */

    /* [auth] */
    char tokens_file[TR_CONFIG_TEXT]; /* empty: there is none, and everything is open */
    bool has_open_probes;

    /* [tls] */
    char tls_cert[TR_CONFIG_TEXT]; /* empty: there is none, and no TLS */
    char tls_key[TR_CONFIG_TEXT];
    char tls_ca[TR_CONFIG_TEXT];
    uint64_t tls_clients; /* enum tr_tls_mode, */
    uint64_t tls_peers;   /* likewise */
    bool has_tls_clients; /* it was said */

    /* [ui] */
    bool has_page;
    bool is_page_read_only;

    /* [keyspace] */
    bool needs_quorum; /* too few answers are a failure */
    uint64_t anti_entropy_s;

    /* [cluster] */
    char localhost[TR_CONFIG_ADDRESS];
    struct tr_config_node nodes[TR_VIEW_NODES_MAX];
    uint32_t node_count;

    char secret[TR_CONFIG_TEXT]; /* empty: there is none */
    char secret_file[TR_CONFIG_TEXT];

    /* [identity] */
    uint64_t instance_id;
    uint64_t deployment_id;
    bool has_identity;

    /* [logging] */
    char log_folder[TR_CONFIG_TEXT]; /* empty: standard error */
    uint64_t log_level;
    bool log_json;

    /* [throttling] */
    uint64_t target_latency_us;

    /* [storage] */
    char data_dir[TR_CONFIG_TEXT];
    bool has_disk; /* data-dir is not "none" */
    enum tr_sync sync;
    uint64_t sync_interval_ms;
    uint64_t segment_size;
    uint64_t memory_budget; /* 0: half of what the machine has */

    /* [callback] */
    uint64_t callback_timeout_ms;
    uint64_t per_destination;
    uint64_t attempts;
    uint64_t backoff_ms;
    uint64_t dead_keep_s;
    uint64_t key_keep_s;
    uint64_t flights;
    struct tr_network deny[TR_CONFIG_DENY];
    size_t deny_count;
    char ca_file[TR_CONFIG_TEXT];
    bool may_call_nodes;              /* callbacks to nodes of the cluster */
    char ce_source[TR_CONFIG_SOURCE]; /* of events; empty: made of the cluster's id */
    bool is_trace_kept; /* pops of a timer that repeats are all of the trace that set it */

    /* [webhook] */
    struct tr_config_webhook webhooks[TR_CONFIG_WEBHOOKS];
    uint32_t webhook_count;

    /* [limits] */
    uint64_t body_max;
    uint64_t opaque_max;
    bool ignores_unknown; /* members of a timer's body */
    uint64_t value_max;   /* of a key; 0: as the segments allow, TR_CONFIG_VALUE at most */
    uint64_t connections_max;
    uint64_t idle_timeout_s;
    uint64_t pops_kept; /* of the last attempts */
};

/* Where it is read from: what the command line said. */
struct tr_config_sources {
    const char *config_file; /* ours; NULL: not given */
    const char *local_file;  /* the original's */
    const char *cluster_file;
    const char *shared_file;
    bool is_original; /* one of its flags was used: its defaults hold */
    const char *data_dir;
    const char *listen;
    bool has_test_clock; /* time stands still, and is moved by whoever tests */
    int ready_file;      /* above 0: somebody waits there for a byte when the node is ready */
};

/* Reads everything anew. Returns how many faults there were; each was said. `config` is complete
 * when there were none. */
unsigned tr_config_load(struct tr_config *config, const struct tr_config_sources *sources);

/* Whether the list of nodes, if there is one, has this one. */
bool tr_config_names(const struct tr_config *config, struct tr_span address);
bool tr_config_names_itself(const struct tr_config *config);

/* Other nodes are there, anybody can reach this one, and nobody has to prove anything. */
bool tr_config_is_open(const struct tr_config *config, uint32_t nodes);

/* Anybody can reach this one, and may do everything. */
bool tr_config_has_no_tokens(const struct tr_config *config);

/* The secrets that sign what goes to this origin, such as http://127.0.0.1:9000. NULL: none do. */
const struct tr_webhook_keys *tr_config_webhook_keys(const struct tr_config *config,
                                                     struct tr_span origin);

/* Bytes of memory that the node may have. */
uint64_t tr_config_budget(const struct tr_config *config);

#endif
