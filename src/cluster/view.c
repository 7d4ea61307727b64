/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/view.h"

#include "base/assert.h"
#include "base/hash.h"
#include "cluster/member.h"

#include <tryst/place.h>

static const struct tryst_place_config placement = {.strategy = "chronos@1"};

size_t tr_view_map_size(void)
{
    char longest[TR_LOG_ADDRESS_MAX + 1];
    struct tryst_place_node nodes[TR_VIEW_NODES_MAX];
    memset(longest, 'x', TR_LOG_ADDRESS_MAX);
    longest[TR_LOG_ADDRESS_MAX] = '\0';
    for (unsigned i = 0; i < TR_VIEW_NODES_MAX; i++)
        nodes[i] = (struct tryst_place_node){.name = longest};
    return tryst_place_map_size(&placement, nodes, TR_VIEW_NODES_MAX);
}

static int by_name(const struct tryst_place_node *a, const struct tryst_place_node *b)
{
    return strcmp(a->name, b->name);
}

/* Insertion: a view has few nodes, and comes as it was written, mostly sorted. */
static void sort_nodes(struct tryst_place_node *nodes, uint16_t *members, uint32_t count)
{
    TR_ASSERT(count <= TR_VIEW_NODES_MAX);
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t k = i; k > 0 && by_name(&nodes[k - 1], &nodes[k]) > 0; k--) {
            struct tryst_place_node node = nodes[k];
            uint16_t member = members[k];
            nodes[k] = nodes[k - 1];
            members[k] = members[k - 1];
            nodes[k - 1] = node;
            members[k - 1] = member;
        }
    }
}

/* Everything that placement depends on. The order of the lines does not matter. */
static uint64_t id_of(const struct tr_view_node *nodes, uint32_t count)
{
    TR_ASSERT(count > 0 && count <= TR_VIEW_NODES_MAX);
    uint64_t id = tr_hash_xxh3(placement.strategy, strlen(placement.strategy));
    for (uint32_t i = 0; i < count; i++)
        id += tr_hash_mix(tr_hash_xxh3(nodes[i].address.text, nodes[i].address.size) +
                          (uint64_t)nodes[i].role);
    return id;
}

bool tr_view_set(struct tr_cluster *cluster, const struct tr_view_node *nodes, uint32_t count)
{
    struct tryst_place_node placed[TR_VIEW_NODES_MAX];
    uint16_t members[TR_VIEW_NODES_MAX];
    struct tr_view *view = &cluster->view;
    uint32_t new_count = 0;
    if (count > TR_VIEW_NODES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t member = tr_member_intern(cluster, nodes[i].address, TR_LOG_NODES_MAX);
        if (member == TR_MEMBER_NONE)
            return false;
        if (nodes[i].role == TR_ROLE_LEAVING)
            continue;
        placed[new_count] = (struct tryst_place_node){.name = cluster->members[member].address};
        members[new_count++] = member;
    }
    sort_nodes(placed, members, new_count);
    size_t fault = 0;
    if (new_count == 0 || tryst_place_map_init(view->map, view->map_size, &placement, placed,
                                               new_count, &fault) != TRYST_PLACE_OK)
        return false;
    TR_ASSERT(tryst_place_workspace_size(view->map, new_count) <= view->workspace_size);
    for (uint32_t i = 0; i < cluster->member_count; i++)
        cluster->members[i].role = TR_ROLE_NONE;
    for (uint32_t i = 0; i < count; i++)
        cluster->members[tr_member_find(cluster, nodes[i].address)].role = nodes[i].role;
    memcpy(view->placed, members, new_count * sizeof members[0]);
    TR_ASSERT(new_count <= count);
    view->count = new_count;
    view->id = id_of(nodes, count);
    return true;
}

bool tr_view_has_others(const struct tr_cluster *cluster)
{
    TR_ASSERT(cluster->member_count > 0);
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        if (cluster->members[i].role != TR_ROLE_NONE)
            return true;
    }
    return false;
}

unsigned tr_view_place(const struct tr_cluster *cluster, tr_timer_id id, unsigned want,
                       uint16_t *members)
{
    uint32_t nodes[TR_VIEW_NODES_MAX];
    const struct tr_view *view = &cluster->view;
    want = want < view->count ? want : view->count;
    if (view->count <= 1) { /* there is no view yet, or nothing to choose from */
        members[0] = view->placed[0];
        return want;
    }
    size_t count = tryst_place_lookup(view->map, tryst_place_key_of_id(view->map, id), want, nodes,
                                      view->workspace);
    TR_ASSERT(count == want);
    for (size_t i = 0; i < count; i++)
        members[i] = view->placed[nodes[i]];
    return (unsigned)count;
}
