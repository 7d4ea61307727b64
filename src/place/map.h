/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The map behind tryst/place.h, and what a strategy is.
 *
 * Inside, nodes are numbered by the bytes of their names (`chronos` keeps the list's order), so
 * that no answer depends on the order of the list; `listed` leads back to the caller's indexes. All
 * arrays lie in the caller's block, behind the struct.
 */
#ifndef TR_PLACE_MAP_H
#define TR_PLACE_MAP_H

#include "base/assert.h"
#include "place/field.h"

/* Attributes that a strategy can use. */
#define TR_USES_WEIGHT     1u
#define TR_USES_ZONE       2u /* and a spread level */
#define TR_USES_POSITION   4u /* and a number of partitions */
#define TR_KEEPS_THE_ORDER 8u /* of the list */

/* The caller's block, handed out from the front. With no base it only counts: sizes are found by
 * the same calls. */
struct tr_room {
    unsigned char *base;
    size_t used;
    size_t size;
};

/* `count` items of `size` bytes, or NULL while counting. Asserts that they fit. */
void *tr_room_take(struct tr_room *room, size_t count, size_t size);

/* What a strategy needs to know of the nodes to size and build its part. */
struct tr_build {
    const struct tryst_place_config *config;
    const struct tryst_place_node *nodes;          /* the caller's list */
    const struct tryst_place_positions *positions; /* several for each node, or NULL */
    size_t depth;                                  /* levels of every zone */
    size_t fault;                                  /* out: the list index at fault */
};

struct tr_strategy {
    const char *name; /* "rendezvous@1" */
    unsigned uses;

    /* Takes its memory from the room; with a base, fills it. The nodes were checked and numbered.
     */
    enum tryst_place_status (*build)(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room);
    /* From a 64-bit id and from a text's bytes to the key that `rank` takes. NULL: the mix of the
     * id, and of the text's XXH3. */
    uint64_t (*key_of_id)(const struct tryst_place_map *map, uint64_t id);
    uint64_t (*key_of_text)(const struct tryst_place_map *map, const void *text, size_t size);
    /* Bytes that `rank` needs for `want` nodes. NULL: never any. */
    size_t (*scratch_size)(const struct tryst_place_map *map, size_t want);
    /* The first `want` nodes of the key's order, 1 <= want <= count. */
    void (*rank)(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch);
};

struct tr_chronos {
    uint32_t *server; /* hash of each node, clashes settled */
};

/* Virtual locations, those of one node together. */
struct tr_virtual {
    uint32_t *low;
    uint32_t *multiplier;
    uint32_t *owner;
    size_t count;
};

/* A cluster of the skeleton, or a zone of the tree. */
struct tr_vertex {
    struct tr_field field;
    const uint32_t *child; /* of each candidate: a node, or TR_CHILD_VERTEX and a vertex */
    uint32_t leaves;       /* nodes below it */
    bool is_fixed;         /* its order is the candidates' own, whatever the key */
};

#define TR_CHILD_VERTEX 0x80000000u

struct tr_tree {
    struct tr_vertex *vertices; /* the root is 0 */
    unsigned char *pool;        /* the arrays of all vertices */
    uint32_t vertex_count;
    uint32_t depth; /* levels of vertices */

    /* While building: nodes in tree order, and the vertex that is open. */
    uint32_t *order;
    size_t pool_used;
    struct tr_candidates open;
    uint32_t *open_child;
    uint32_t open_vertex;
    uint32_t open_count;
};

struct tr_ring {
    uint64_t *token;  /* sorted */
    uint32_t *owner;  /* of each token */
    uint32_t *bucket; /* first token of each of 2^(64 - shift) equal arcs, and the end */
    size_t count;
    unsigned shift;
};

struct tr_keyspace {
    uint64_t partitions;
    uint32_t *place;    /* positions in the order of the list, */
    uint32_t *start;    /* those of each node of it together, and the end */
    uint32_t *position; /* sorted */
    uint32_t *owner;    /* of each position */
    uint32_t *bucket;   /* first position of each of 256 equal arcs, and the end */
    uint32_t count;     /* positions */
    unsigned shift;

    /* While building. */
    uint32_t *before; /* the place of the position before that of each place, round the circle */
    uint64_t *worth;  /* keyspace@2: a tree of the shares that can be split */
};

struct tryst_place_map {
    const struct tr_strategy *strategy;
    struct tr_scorer scorer;
    const struct tryst_place_hash *hash;
    uint32_t count;
    uint32_t *listed;   /* number -> index in the list */
    uint32_t *numbered; /* index in the list -> number */
    const char **name;
    uint64_t *seed;
    uint64_t *weight;
    struct tr_field field; /* of all nodes */
    union {
        struct tr_chronos chronos;
        struct tr_virtual virtuals;
        struct tr_tree tree;
        struct tr_ring ring;
        struct tr_keyspace keyspace;
    };
};

extern const struct tr_strategy tr_strategy_chronos;
extern const struct tr_strategy tr_strategy_rendezvous;
extern const struct tr_strategy tr_strategy_carp;
extern const struct tr_strategy tr_strategy_virtual;
extern const struct tr_strategy tr_strategy_skeleton;
extern const struct tr_strategy tr_strategy_crush;
extern const struct tr_strategy tr_strategy_ring;
extern const struct tr_strategy tr_strategy_keyspace_1;
extern const struct tr_strategy tr_strategy_keyspace_2;

/* Whether the map is a ring of partitions. */
static inline bool tr_map_is_keyspace(const struct tryst_place_map *map)
{
    return (map->strategy->uses & TR_USES_POSITION) != 0;
}

/* A key of a partition. */
uint64_t tr_keyspace_key_at(const struct tryst_place_map *map, uint64_t partition);

/* Takes an array for a kernel to read: `count` numbers and a spare block. */
uint32_t *tr_lanes_take(struct tr_room *room, size_t count);

/* Takes the arrays of `count` candidates. */
struct tr_candidates tr_candidates_take(struct tr_room *room, size_t count);

/* Makes the nodes candidates of one field. */
void tr_map_make_field(struct tryst_place_map *map, struct tr_room *room);

/* Point number `index` of a node: a virtual location, a token. The same for every count of points
 * above it. */
uint64_t tr_point(uint64_t seed, uint64_t index);

/* Points of a node: `per_unit` for a weight of one, to the nearest, at least one. */
static inline uint64_t tr_point_count(uint64_t weight, uint64_t per_unit)
{
    TR_ASSERT(weight > 0);
    uint64_t points = (weight * per_unit + (TRYST_PLACE_WEIGHT_ONE >> 1)) >> 32;
    return points > 0 ? points : 1;
}

/* Points of all nodes of the list. */
uint64_t tr_point_total(const struct tr_build *build, size_t count, uint64_t per_unit);

#endif
