/* SPDX-License-Identifier: Apache-2.0 */
/* The ring of a keyspace: whose each stretch of it is, and what share of the keys that makes. */
#ifndef TR_CLI_KEYSPACE_H
#define TR_CLI_KEYSPACE_H

#include "cli/cli.h"

#include <tryst/place.h>

struct tr_ring_node {
    const char *name;
    size_t positions;
    uint64_t owned;  /* partitions whose first node it is */
    uint64_t copies; /* partitions whose preference list has it */
};

/* The partitions after the position before, up to this one. */
struct tr_ring_stretch {
    uint32_t position;
    uint32_t node;
    uint64_t partitions;
};

struct tr_ring {
    uint64_t partitions;
    size_t list_size; /* of a preference list */
    struct tr_ring_node *nodes;
    size_t node_count;
    struct tr_ring_stretch *stretches; /* in the order of the ring */
    size_t stretch_count;
};

/* A node's share of all keys; 1 is an even one. */
double tr_ring_evenness(const struct tr_ring *ring, const struct tr_ring_node *node);

/* That of the cluster of a node, which is to be freed; NULL: it was said why not. */
struct tryst_place_map *tr_ring_ask(const char *address, size_t *list_size);

void tr_ring_print_svg(const struct tr_ring *ring, FILE *out);

#endif
