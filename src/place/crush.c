/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `crush`: a tree of zones, a weighted rendezvous (straw2) at each level, replicas in distinct
 * failure domains.
 *
 * The domains are the zones of the spread level, all of them children of the root: levels above it
 * only name them. At each vertex the children are ranked once, and places are dealt out one to each
 * child in rank order, then a second to each that has room, and so on; each child deals its places
 * in the same way. So the first places of a key go to distinct domains, later ones as evenly as the
 * domains' sizes allow, and an answer for k is a prefix of that for k + 1.
 */
#include "base/assert.h"
#include "base/hash.h"
#include "base/heap.h"
#include "place/tree.h"

#include <string.h>

/* Bytes of a zone path up to and with its first `levels` levels. */
static size_t prefix_size(const char *zone, size_t levels)
{
    size_t size = 0;
    for (size_t level = 0; level < levels; level++) {
        size += level > 0; /* the slash */
        size += strcspn(zone + size, "/");
    }
    return size;
}

/* Not the hash of the path itself: a zone and a node in it may bear one name, and must not win
 * together. */
static uint64_t zone_seed(const char *zone, size_t levels)
{
    return tr_hash_mix(tr_hash_xxh3(zone, prefix_size(zone, levels)) + levels);
}

struct sorting {
    const struct tryst_place_map *map;
    const struct tryst_place_node *nodes;
};

static const char *zone_of(const struct sorting *sorting, uint32_t number)
{
    const char *zone = sorting->nodes[sorting->map->listed[number]].zone;
    return zone == NULL ? "" : zone;
}

/* Level by level, each by its bytes: the end of a level comes before any byte. */
static int compare_zones(const char *a, const char *b)
{
    size_t at = 0;
    while (a[at] == b[at] && a[at] != '\0')
        at++;
    int left = a[at] == '/' ? 0 : (unsigned char)a[at];
    int right = b[at] == '/' ? 0 : (unsigned char)b[at];
    return left - right;
}

static bool is_before(const void *context, uint32_t a, uint32_t b)
{
    const struct sorting *sorting = context;
    int order = compare_zones(zone_of(sorting, a), zone_of(sorting, b));
    return order != 0 ? order < 0 : a < b;
}

static bool share_zone(const char *a, const char *b, size_t levels)
{
    size_t size = prefix_size(a, levels);
    return size == prefix_size(b, levels) && memcmp(a, b, size) == 0;
}

/* A vertex to be made: its nodes are order[first] to order[end], its children at `level`. */
struct pending {
    uint32_t first;
    uint32_t end;
    uint32_t vertex;
    uint32_t level;
};

struct builder {
    struct sorting sorting;
    struct tr_tree *tree;
    struct pending *pending; /* a queue, in the order of vertex numbers */
    size_t pending_count;
    size_t depth; /* levels of the zones */
};

/* The end of the child of `vertex` that starts at order[first]: a zone, or below the zones a single
 * node. */
static uint32_t child_end(const struct builder *builder, struct pending vertex, uint32_t first)
{
    const uint32_t *order = builder->tree->order;
    uint32_t end = first + 1;
    if (vertex.level > builder->depth)
        return end;
    const char *zone = zone_of(&builder->sorting, order[first]);
    while (end < vertex.end &&
           share_zone(zone, zone_of(&builder->sorting, order[end]), vertex.level))
        end++;
    TR_ASSERT(end <= vertex.end);
    return end;
}

static void add_zone(struct builder *builder, uint32_t first, uint32_t end, uint32_t level)
{
    TR_ASSERT(first < end && level <= builder->depth);
    struct tr_tree *tree = builder->tree;
    uint32_t vertex = tree->vertex_count++;
    builder->pending[builder->pending_count++] = (struct pending){first, end, vertex, level + 1};
    tr_tree_add(tree, (struct tr_tree_child){
                          .seed = zone_seed(zone_of(&builder->sorting, tree->order[first]), level),
                          .weight = tr_tree_weight(builder->sorting.map, first, end),
                          .child = TR_CHILD_VERTEX | vertex,
                      });
}

static void add_node(struct builder *builder, uint32_t node)
{
    const struct tryst_place_map *map = builder->sorting.map;
    tr_tree_add(builder->tree, (struct tr_tree_child){.seed = map->seed[node],
                                                      .weight = map->weight[node],
                                                      .child = node});
}

static void make_vertex(struct builder *builder, struct pending vertex)
{
    TR_ASSERT(vertex.first < vertex.end && vertex.vertex < builder->tree->vertex_count);
    size_t children = 0;
    for (uint32_t at = vertex.first; at < vertex.end; children++)
        at = child_end(builder, vertex, at);
    tr_tree_open(builder->tree, vertex.vertex, children);
    for (uint32_t first = vertex.first; first < vertex.end;) {
        uint32_t end = child_end(builder, vertex, first);
        if (vertex.level > builder->depth)
            add_node(builder, builder->tree->order[first]);
        else
            add_zone(builder, first, end, vertex.level);
        first = end;
    }
    tr_tree_close(builder->tree, vertex.end - vertex.first);
}

static enum tryst_place_status build(struct tryst_place_map *map, struct tr_build *build,
                                     struct tr_room *room)
{
    struct tr_tree *tree = &map->tree;
    uint32_t spread = build->config->spread == 0 ? 1 : build->config->spread;
    tree->depth = (uint32_t)(build->depth < spread ? 1 : build->depth - spread + 2);
    size_t vertex_max = 1 + (size_t)map->count * (tree->depth - 1);
    tr_tree_take(tree, room, map->count, (size_t)map->count * tree->depth, vertex_max);
    struct builder builder = {.sorting = {map, build->nodes}, .tree = tree, .depth = build->depth};
    builder.pending = tr_room_take(room, vertex_max, sizeof *builder.pending);
    if (room->base == NULL)
        return TRYST_PLACE_OK;
    for (uint32_t i = 0; i < map->count; i++)
        tree->order[i] = i;
    tr_heap_sort(tree->order, map->count, is_before, &builder.sorting);
    tree->vertex_count = 1;
    builder.pending[builder.pending_count++] = (struct pending){0, map->count, 0, spread};
    for (size_t done = 0; done < builder.pending_count; done++)
        make_vertex(&builder, builder.pending[done]);
    TR_ASSERT(builder.pending_count == tree->vertex_count && tree->vertex_count <= vertex_max);
    return TRYST_PLACE_OK;
}

/* A vertex and the places it has to fill: places[first] to places[first + count]. */
struct share {
    uint32_t vertex;
    uint32_t first;
    uint32_t count;
};

/* The places of the answer, level by level. Each level's shares cut the same places up differently.
 */
struct deal {
    struct share *shares[2]; /* of this level and the next */
    uint32_t *places[2];
    uint32_t *ranked; /* children of the vertex at hand, best first */
    uint32_t *turns;  /* which of them each place goes to */
    uint32_t *active; /* which of them have nodes left */
    uint32_t *quota;  /* how many places each of them has, and then where its next one is */
    void *scratch;
    size_t share_count[2];
};

#define DEAL_SIZE (2 * sizeof(struct share) + 6 * sizeof(uint32_t)) /* for each place */

static struct deal deal_make(const struct tryst_place_map *map, size_t want, void *memory)
{
    TR_ASSERT(memory != NULL && want >= 1);
    struct deal deal = {.scratch = memory};
    unsigned char *at = (unsigned char *)memory + tr_field_scratch_size(map->count, want);
    for (size_t i = 0; i < 2; i++, at += want * sizeof(struct share))
        deal.shares[i] = (struct share *)(void *)at;
    for (size_t i = 0; i < 2; i++, at += want * sizeof(uint32_t))
        deal.places[i] = (uint32_t *)(void *)at;
    deal.ranked = (uint32_t *)(void *)at;
    deal.turns = deal.ranked + want;
    deal.active = deal.turns + want;
    deal.quota = deal.active + want;
    return deal;
}

/* Whose turn each of `count` places is: the children's in rank order, round after round, as long as
 * they have nodes left. Those that have none drop out, so that a round costs no more than the
 * places it deals. */
static void take_turns(const struct deal *deal, const struct tr_tree *tree,
                       const struct tr_vertex *vertex, size_t ranked, size_t count)
{
    TR_ASSERT(ranked >= 1 && ranked <= count);
    size_t active = ranked;
    for (uint32_t i = 0; i < ranked; i++) {
        deal->active[i] = i;
        deal->quota[i] = 0;
    }
    for (size_t dealt = 0; dealt < count;) {
        size_t still_active = 0;
        for (size_t i = 0; i < active && dealt < count; i++) {
            uint32_t turn = deal->active[i];
            deal->turns[dealt++] = turn;
            if (++deal->quota[turn] < tr_tree_leaves(tree, vertex->child[deal->ranked[turn]]))
                deal->active[still_active++] = turn;
        }
        active = still_active;
        TR_ASSERT(active > 0 || dealt == count);
    }
}

/* Opens a share of the next level for each ranked child. Afterwards `quota` is where its next place
 * goes. */
static void open_shares(struct deal *deal, const struct tr_vertex *vertex, size_t ranked,
                        uint32_t first)
{
    for (size_t i = 0; i < ranked; i++) {
        uint32_t quota = deal->quota[i];
        deal->shares[1][deal->share_count[1]++] =
            (struct share){vertex->child[deal->ranked[i]] & ~TR_CHILD_VERTEX, first, quota};
        deal->quota[i] = first;
        first += quota;
    }
}

static void deal_share(struct deal *deal, const struct tryst_place_map *map, uint64_t key,
                       struct share share, uint32_t *numbers)
{
    const struct tr_vertex *vertex = &map->tree.vertices[share.vertex];
    TR_ASSERT(share.count >= 1 && share.count <= vertex->leaves);
    size_t ranked = share.count < vertex->field.count ? share.count : vertex->field.count;
    const uint32_t *places = deal->places[0] + share.first;
    tr_field_rank(&vertex->field, &map->scorer, key, ranked, deal->ranked, deal->scratch);
    if (!(vertex->child[0] & TR_CHILD_VERTEX)) {
        for (size_t i = 0; i < share.count; i++)
            numbers[places[i]] = vertex->child[deal->ranked[i]];
        return;
    }
    take_turns(deal, &map->tree, vertex, ranked, share.count);
    open_shares(deal, vertex, ranked, share.first);
    for (size_t i = 0; i < share.count; i++)
        deal->places[1][deal->quota[deal->turns[i]]++] = places[i];
}

static void swap_levels(struct deal *deal)
{
    struct share *shares = deal->shares[0];
    uint32_t *places = deal->places[0];
    deal->shares[0] = deal->shares[1];
    deal->places[0] = deal->places[1];
    deal->shares[1] = shares;
    deal->places[1] = places;
    deal->share_count[0] = deal->share_count[1];
    deal->share_count[1] = 0;
}

static size_t scratch_size(const struct tryst_place_map *map, size_t want)
{
    return want <= TR_FIELD_FEW ? 0 : tr_field_scratch_size(map->count, want) + want * DEAL_SIZE;
}

static void rank(const struct tryst_place_map *map, uint64_t key, size_t want, uint32_t *numbers,
                 void *scratch)
{
    uint64_t few[TR_FIELD_FEW * DEAL_SIZE / sizeof(uint64_t)];
    struct deal deal = deal_make(map, want, want <= TR_FIELD_FEW ? (void *)few : scratch);
    for (uint32_t i = 0; i < want; i++)
        deal.places[0][i] = i;
    deal.shares[0][0] = (struct share){0, 0, (uint32_t)want};
    deal.share_count[0] = 1;
    for (uint32_t level = 0; level < map->tree.depth; level++, swap_levels(&deal)) {
        for (size_t i = 0; i < deal.share_count[0]; i++)
            deal_share(&deal, map, key, deal.shares[0][i], numbers);
    }
}

const struct tr_strategy tr_strategy_crush = {
    .name = "crush@1",
    .uses = TR_USES_WEIGHT | TR_USES_ZONE,
    .build = build,
    .scratch_size = scratch_size,
    .rank = rank,
};
