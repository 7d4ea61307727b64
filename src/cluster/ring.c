/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/ring.h"

#include "base/assert.h"
#include "cluster/member.h"

#include <tryst/place.h>

#define STRATEGY "keyspace@2"

/* The nodes of a ring as the placement library takes them. */
struct list {
    uint32_t count;
    uint16_t members[TR_VIEW_NODES_MAX];
    uint32_t places[TR_VIEW_NODES_MAX]; /* in the roster */
    struct tryst_place_node nodes[TR_VIEW_NODES_MAX];
    struct tryst_place_given given[TR_VIEW_NODES_MAX];
};

size_t tr_ring_map_size(void)
{
    static const uint32_t none[TR_POSITIONS_MAX];
    struct tryst_place_config config = {.strategy = STRATEGY, .partitions = TR_PARTITIONS_MAX};
    struct tryst_place_positions positions = {.per_node = TR_POSITIONS_MAX};
    struct tryst_place_node nodes[TR_VIEW_NODES_MAX];
    struct tryst_place_given given[TR_VIEW_NODES_MAX];
    char longest[TR_LOG_ADDRESS_MAX + 1];
    memset(longest, 'x', TR_LOG_ADDRESS_MAX);
    longest[TR_LOG_ADDRESS_MAX] = '\0';
    for (uint32_t i = 0; i < TR_VIEW_NODES_MAX; i++) {
        nodes[i] = (struct tryst_place_node){.name = longest};
        given[i] = (struct tryst_place_given){none, TR_POSITIONS_MAX};
    }
    positions.given = given;
    return tryst_place_keyspace_size(&config, &positions, nodes, TR_VIEW_NODES_MAX);
}

/* False: it has never been heard of, and there is no room for it. */
static bool add(struct tr_cluster *cluster, const struct tr_roster *roster, uint32_t place,
                struct list *list)
{
    const struct tr_roster_node *node = &roster->nodes[place];
    uint16_t member = tr_member_intern(cluster, tr_roster_address(roster, place), TR_LOG_NODES_MAX);
    if (member == TR_MEMBER_NONE)
        return false;
    list->members[list->count] = member;
    list->places[list->count] = place;
    list->nodes[list->count] = (struct tryst_place_node){.name = cluster->members[member].address};
    list->given[list->count++] = (struct tryst_place_given){node->positions, node->position_count};
    return true;
}

static bool build(struct tr_cluster *cluster, struct tr_ring *ring,
                  const struct tr_definition *keys, const struct list *list)
{
    struct tryst_place_config config = {.strategy = STRATEGY, .partitions = keys->partitions};
    struct tryst_place_positions positions = {list->given, keys->positions};
    size_t fault = 0;
    ring->count = 0;
    if (list->count == 0 ||
        tryst_place_keyspace_init(ring->map, cluster->ring_map_size, &config, &positions,
                                  list->nodes, list->count, &fault) != TRYST_PLACE_OK)
        return false;
    TR_ASSERT(tryst_place_workspace_size(ring->map, (size_t)TR_RING_WANT) <=
              cluster->view.workspace_size);
    memcpy(ring->placed, list->members, list->count * sizeof list->members[0]);
    ring->count = list->count;
    ring->copies = keys->copies < list->count ? keys->copies : (uint8_t)list->count;
    ring->reads = keys->reads < ring->copies ? keys->reads : ring->copies;
    ring->writes = keys->writes < ring->copies ? keys->writes : ring->copies;
    return true;
}

/* One that will not be there, or was not there before, is on one ring only. */
static bool is_on(enum tr_role role, bool is_new)
{
    return role == TR_ROLE_STAYING || role == (is_new ? TR_ROLE_JOINING : TR_ROLE_LEAVING);
}

static bool set_one(struct tr_cluster *cluster, struct tr_ring *ring,
                    const struct tr_roster *roster, bool is_new)
{
    struct list list = {.count = 0};
    for (uint32_t i = 0; i < roster->count; i++) {
        if (is_on(roster->nodes[i].role, is_new) && !add(cluster, roster, i, &list))
            return false;
    }
    return build(cluster, ring, is_new ? &roster->keys : &roster->before, &list);
}

bool tr_ring_set(struct tr_cluster *cluster, const struct tr_roster *roster)
{
    cluster->ring.count = 0;
    cluster->old_ring.count = 0;
    if (roster->keys.partitions == 0)
        return true;
    if (!set_one(cluster, &cluster->ring, roster, true))
        return false;
    /* Without anybody on the old ring there is nothing that it could hold. */
    if (tr_roster_is_changing(roster))
        set_one(cluster, &cluster->old_ring, roster, false);
    return true;
}

/* Those who have positions come first: the others choose among what is left. */
bool tr_ring_choose(struct tr_cluster *cluster, struct tr_roster *roster)
{
    struct list list = {.count = 0};
    if (roster->keys.partitions == 0)
        return true;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < roster->count; i++) {
            if ((roster->nodes[i].position_count == 0) == (pass == 1) &&
                !add(cluster, roster, i, &list))
                return false;
        }
    }
    struct tr_ring scratch = {.map = cluster->ring_scratch};
    if (!build(cluster, &scratch, &roster->keys, &list))
        return false;
    for (uint32_t i = 0; i < list.count; i++) {
        struct tr_roster_node *node = &roster->nodes[list.places[i]];
        const uint32_t *chosen = NULL;
        size_t count = tryst_place_node_positions(scratch.map, i, &chosen);
        if (node->position_count > 0)
            continue;
        TR_ASSERT(count > 0 && count <= TR_POSITIONS_MAX);
        memcpy(node->positions, chosen, count * sizeof chosen[0]);
        node->position_count = (uint8_t)count;
        tr_roster_sort_positions(node);
    }
    return true;
}

/* ---- looking up ---- */

static struct tryst_place_key key_of(const struct tr_cluster *cluster, struct tr_span key)
{
    return tryst_place_key_of_text(cluster->ring.map, key.text, key.size);
}

static unsigned look_up(const struct tr_cluster *cluster, const struct tr_ring *ring,
                        struct tryst_place_key key, unsigned want, uint16_t *members)
{
    uint32_t nodes[TR_VIEW_NODES_MAX];
    TR_ASSERT(ring->count > 0 && want <= TR_VIEW_NODES_MAX);
    size_t count = tryst_place_lookup(ring->map, key, want, nodes, cluster->view.workspace);
    for (size_t i = 0; i < count; i++)
        members[i] = ring->placed[nodes[i]];
    return (unsigned)count;
}

unsigned tr_ring_list(const struct tr_cluster *cluster, const struct tr_ring *ring,
                      struct tr_span key, unsigned want, uint16_t *members)
{
    if (ring->count == 1) {
        members[0] = ring->placed[0];
        return 1;
    }
    return look_up(cluster, ring, key_of(cluster, key), want, members);
}

bool tr_holders_have(const struct tr_holders *holders, uint16_t member)
{
    for (unsigned i = 0; i < holders->count; i++) {
        if (holders->members[i] == member)
            return true;
    }
    return false;
}

/* Adds one of a ring's list, which may be on the other's, too. */
static void hold(struct tr_holders *holders, uint16_t member, bool is_new)
{
    unsigned at = 0;
    while (at < holders->count && holders->members[at] != member)
        at++;
    TR_ASSERT(at < 2 * TR_COPIES_MAX);
    if (at == holders->count)
        holders->members[holders->count++] = member;
    if (is_new)
        holders->of_new |= (uint16_t)(1u << at);
    else
        holders->of_old |= (uint16_t)(1u << at);
}

void tr_ring_holders(const struct tr_cluster *cluster, struct tr_span key,
                     struct tr_holders *holders)
{
    uint16_t members[TR_COPIES_MAX];
    const struct tr_ring *rings[] = {&cluster->ring, &cluster->old_ring};
    *holders = (struct tr_holders){0};
    TR_ASSERT(cluster->ring.count > 0);
    if (cluster->ring.count == 1 && cluster->old_ring.count == 0) {
        hold(holders, cluster->ring.placed[0], true);
        return;
    }
    struct tryst_place_key place = key_of(cluster, key);
    for (unsigned i = 0; i < 2; i++) {
        if (rings[i]->count == 0)
            continue;
        unsigned count = look_up(cluster, rings[i], place, rings[i]->copies, members);
        for (unsigned k = 0; k < count; k++)
            hold(holders, members[k], i == 0);
    }
}
