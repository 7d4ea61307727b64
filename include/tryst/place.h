/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tryst_place: which nodes hold a key?
 *
 * A map is built once from a list of nodes and then looked up from any number of threads: lookups
 * are const, take no lock and allocate nothing. The answer is a pure function of (strategy and its
 * version, nodes, key, count): every node and every client computes the same one, alone.
 * docs/placement.md states every rule; the answers of a released version never change.
 *
 *     struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
 *     struct tryst_place_config config = {.strategy = "rendezvous"};
 *     size_t size = tryst_place_map_size(&config, nodes, 3);
 *     struct tryst_place_map *map = malloc(size);
 *     if (tryst_place_map_init(map, size, &config, nodes, 3, NULL) == TRYST_PLACE_OK) {
 *         uint32_t holders[2];
 *         struct tryst_place_key key = tryst_place_key_of_text(map, "order-17", 8);
 *         size_t count = tryst_place_lookup(map, key, 2, holders, NULL);
 *         for (size_t i = 0; i < count; i++)
 *             puts(nodes[holders[i]].name);
 *     }
 *     free(map);
 *
 * Memory:   the caller's. A map lives in one block that must not move, be copied or be shared with
 *           another process; it keeps copies of the names, and nothing needs to be released but the
 *           block. A lookup of many nodes wants a workspace (tryst_place_workspace_size), one per
 *           thread.
 * Nodes:    answers are indexes into the list the map was built from.
 * Errors:   only building can fail: with a status, and the index of the node at fault.
 */
#ifndef TRYST_PLACE_H
#define TRYST_PLACE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TRYST_PLACE_API
#define TRYST_PLACE_API
#endif

/* Weights are 32.32 fixed-point numbers, from 1/65536 to 65536. */
#define TRYST_PLACE_WEIGHT_ONE ((uint64_t)1 << 32)
#define TRYST_PLACE_WEIGHT_MIN ((uint64_t)1 << 16)
#define TRYST_PLACE_WEIGHT_MAX ((uint64_t)1 << 48)

#define TRYST_PLACE_NODES_MAX          65535
#define TRYST_PLACE_NAME_MAX           255        /* bytes of a name, and of a zone path */
#define TRYST_PLACE_DEPTH_MAX          8          /* levels of zones */
#define TRYST_PLACE_POINTS_MAX         (1u << 24) /* locations, tokens, positions of a map */
#define TRYST_PLACE_PARTITIONS_DEFAULT 1024       /* of a keyspace */
#define TRYST_PLACE_PARTITIONS_MAX     ((uint64_t)1 << 32)

enum tryst_place_status {
    TRYST_PLACE_OK = 0,
    TRYST_PLACE_UNKNOWN_STRATEGY,
    TRYST_PLACE_UNKNOWN_VERSION,
    TRYST_PLACE_NO_NODES,
    TRYST_PLACE_TOO_MANY_NODES,
    TRYST_PLACE_BAD_NAME,       /* empty, or longer than TRYST_PLACE_NAME_MAX */
    TRYST_PLACE_DUPLICATE_NAME, /* of a node before it in the list */
    TRYST_PLACE_BAD_WEIGHT,     /* outside TRYST_PLACE_WEIGHT_MIN to _MAX */
    TRYST_PLACE_WEIGHT_UNUSED,  /* the strategy knows no weights */
    TRYST_PLACE_BAD_ZONE,       /* an empty level, too many of them, or too long a path */
    TRYST_PLACE_ZONE_DEPTH,     /* not as many levels as the first node's zone */
    TRYST_PLACE_ZONE_UNUSED,
    TRYST_PLACE_BAD_SPREAD, /* no such level */
    TRYST_PLACE_SPREAD_UNUSED,
    TRYST_PLACE_BAD_PARTITIONS, /* more than TRYST_PLACE_PARTITIONS_MAX */
    TRYST_PLACE_PARTITIONS_UNUSED,
    TRYST_PLACE_BAD_POSITION,   /* not below the number of partitions */
    TRYST_PLACE_POSITION_TAKEN, /* by a node before it in the list, or given twice */
    TRYST_PLACE_POSITION_UNUSED,
    TRYST_PLACE_NO_POSITION_LEFT, /* no gap has a free partition in its middle */
    TRYST_PLACE_TOO_MANY_POINTS,  /* more than TRYST_PLACE_POINTS_MAX are asked for */
    TRYST_PLACE_MEMORY_TOO_SMALL, /* the block is smaller than tryst_place_map_size said */
    TRYST_PLACE_BAD_FLAGS,        /* bits that this version of the library does not know */
};

/* A node of the list. What is zero was not given; to give what the strategy cannot use is an
 * error. */
struct tryst_place_node {
    const char *name;      /* unique, NUL-terminated */
    const char *zone;      /* path from the outermost level, "region/rack", or NULL */
    uint64_t weight;       /* 32.32; 0 is no weight at all but "not given", and counts as one */
    uint32_t position;     /* `keyspace`: its partition, if has_position */
    uint32_t has_position; /* otherwise one or more are chosen for it (docs/placement.md) */
};

/* Replaces hash functions, for tests that want to choose the values. Any member may be NULL. */
struct tryst_place_hash {
    /* A node's seed; for `chronos` its low 32 bits are the server hash. */
    uint64_t (*node)(void *context, const char *name, size_t name_size);
    /* The raw score of a prepared key on a node; for `chronos` its low 32 bits. `seed` is the
     * node's, for `chronos` its server hash; of the points, branches and zones of other strategies
     * than `rendezvous` and `carp` it comes with its bits 32 and 63 set. */
    uint64_t (*score)(void *context, uint64_t key, uint64_t seed);
    void *context;
};

/* Look up without SIMD: the same answers, more slowly. For tests and comparisons. */
#define TRYST_PLACE_PORTABLE 1u

struct tryst_place_config {
    const char *strategy;                /* "rendezvous@1"; without a version, the newest one */
    const struct tryst_place_hash *hash; /* NULL; else it must outlive the map */
    uint64_t partitions; /* `keyspace`: 1 to 2^32, or 0: TRYST_PLACE_PARTITIONS_DEFAULT */
    uint32_t spread;     /* `crush`: level of the failure domains from 1, or 0: the outermost */
    uint32_t flags;      /* TRYST_PLACE_PORTABLE, or 0 */
};

/* Opaque; lives in the caller's block. */
struct tryst_place_map;

/* A key made ready for one strategy in one version: good for every map of it, for no other. */
struct tryst_place_key {
    uint64_t bits;
};

/* Nodes to pass over, as indexes into the list; one that is named twice, or is not there, does no
 * harm. */
struct tryst_place_except {
    const uint32_t *nodes;
    size_t count;
};

/* Bytes that a map of these nodes needs, aligned as malloc aligns. Never 0; what is wrong with the
 * nodes is said by tryst_place_map_init. */
TRYST_PLACE_API size_t tryst_place_map_size(const struct tryst_place_config *config,
                                            const struct tryst_place_node *nodes,
                                            size_t node_count);

/* Builds a map in `map`, a block of `size` bytes. On failure the block holds nothing, and `*fault`
 * (where not NULL) is the index of the node at fault, or node_count when it is no single one. */
TRYST_PLACE_API enum tryst_place_status
tryst_place_map_init(struct tryst_place_map *map, size_t size,
                     const struct tryst_place_config *config, const struct tryst_place_node *nodes,
                     size_t node_count, size_t *fault);

/* `keyspace@2`: a node may have several positions. */
struct tryst_place_given {
    const uint32_t *positions;
    size_t count; /* 0: the node's own, or they are chosen */
};

struct tryst_place_positions {
    const struct tryst_place_given *given; /* of each node of the list, or NULL */
    uint32_t per_node; /* that are chosen for a node; 0: 16, or 1 of less than 1024 partitions */
};

/* As tryst_place_map_size and tryst_place_map_init, with such positions (or NULL). */
TRYST_PLACE_API size_t tryst_place_keyspace_size(const struct tryst_place_config *config,
                                                 const struct tryst_place_positions *positions,
                                                 const struct tryst_place_node *nodes,
                                                 size_t node_count);
TRYST_PLACE_API enum tryst_place_status
tryst_place_keyspace_init(struct tryst_place_map *map, size_t size,
                          const struct tryst_place_config *config,
                          const struct tryst_place_positions *positions,
                          const struct tryst_place_node *nodes, size_t node_count, size_t *fault);

/* One line that says what is wrong, without a full stop. */
TRYST_PLACE_API const char *tryst_place_status_text(enum tryst_place_status status);

/* From a 64-bit id, or from a text's bytes, as the strategy takes them (docs/placement.md). */
TRYST_PLACE_API struct tryst_place_key tryst_place_key_of_id(const struct tryst_place_map *map,
                                                             uint64_t id);
TRYST_PLACE_API struct tryst_place_key tryst_place_key_of_text(const struct tryst_place_map *map,
                                                               const void *text, size_t text_size);

/* A key at a place of its own choice: a partition of `keyspace`, a point of 2^64 of `ring`.
 * TRYST_PLACE_POSITION_UNUSED for a strategy that is no circle, TRYST_PLACE_BAD_POSITION for a
 * partition that is not there. */
TRYST_PLACE_API enum tryst_place_status tryst_place_key_at(const struct tryst_place_map *map,
                                                           uint64_t position,
                                                           struct tryst_place_key *key);

/* Bytes of workspace for a lookup of `want` nodes, the excluded ones counted in; 0: pass NULL.
 * Aligned as malloc aligns. */
TRYST_PLACE_API size_t tryst_place_workspace_size(const struct tryst_place_map *map, size_t want);

/* Writes the `want` nodes that hold `key`, in order, and returns how many there are: `want`, or
 * every node of a smaller map. The first k of k + 1 are the answer for k. */
TRYST_PLACE_API size_t tryst_place_lookup(const struct tryst_place_map *map,
                                          struct tryst_place_key key, size_t want, uint32_t *nodes,
                                          void *workspace);

/* The same with some nodes taken out of the order (`except` may be NULL): the next ones move up.
 * The workspace is that for `want` + except->count nodes. */
TRYST_PLACE_API size_t tryst_place_lookup_except(const struct tryst_place_map *map,
                                                 struct tryst_place_key key, size_t want,
                                                 uint32_t *nodes,
                                                 const struct tryst_place_except *except,
                                                 void *workspace);

/* The same for many keys. Returns the length L of every row: `want`, or the number of nodes if that
 * is smaller. The row of keys[i] starts at nodes[i * L]. */
TRYST_PLACE_API size_t tryst_place_lookup_many(const struct tryst_place_map *map,
                                               const struct tryst_place_key *keys, size_t key_count,
                                               size_t want, uint32_t *nodes, void *workspace);

/* What the map was built of. `node` is an index into the list. */
TRYST_PLACE_API size_t tryst_place_node_count(const struct tryst_place_map *map);
TRYST_PLACE_API const char *tryst_place_node_name(const struct tryst_place_map *map, size_t node);
TRYST_PLACE_API uint64_t tryst_place_node_weight(const struct tryst_place_map *map, size_t node);
/* The first partition of a node of `keyspace`, given or chosen; of another strategy's 0. A node of
 * `keyspace@2` may have more of them, without which a map is another one. */
TRYST_PLACE_API uint32_t tryst_place_node_position(const struct tryst_place_map *map, size_t node);
/* All of them, in the map's memory, and how many there are; of another strategy's none. */
TRYST_PLACE_API size_t tryst_place_node_positions(const struct tryst_place_map *map, size_t node,
                                                  const uint32_t **positions);
/* The server hash of a node of `chronos`, clashes settled; of another strategy's node its seed. */
TRYST_PLACE_API uint64_t tryst_place_node_hash(const struct tryst_place_map *map, size_t node);
/* The partitions of `keyspace`; of another strategy 0. */
TRYST_PLACE_API uint64_t tryst_place_partitions(const struct tryst_place_map *map);
/* Name and version, "rendezvous@1". */
TRYST_PLACE_API const char *tryst_place_strategy(const struct tryst_place_map *map);
/* The strategies there are, from 0; NULL past the last. */
TRYST_PLACE_API const char *tryst_place_strategy_name(size_t index);

#ifdef __cplusplus
}
#endif

#endif
