/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The view: which nodes there are, and where it places a timer. The new cluster, staying and
 * joining nodes, holds timers; leaving ones are on their way out.
 *
 * Members are every node that this store has ever heard of, in a table that only grows: records
 * name the nodes of their lists by two-byte indexes into it. Entry 0 is this store, whatever its
 * address is now. Each segment's header has the table; one that grows in between is logged.
 */
#include "node/internal.h"

static const struct tryst_place_config placement = {.strategy = "chronos@1"};

struct tr_span tr_member_address(const struct tr_node *node, uint16_t index)
{
    const struct tr_member *member = &node->members[index];
    return (struct tr_span){member->address, member->address_size};
}

uint16_t tr_member_find(const struct tr_node *node, struct tr_span address)
{
    uint64_t hash = tr_hash_xxh3(address.text, address.size);
    for (uint32_t i = 0; i < node->member_count; i++) {
        if (node->members[i].hash == hash &&
            tr_span_equals(tr_member_address(node, (uint16_t)i), address))
            return (uint16_t)i;
    }
    return TR_MEMBER_NONE;
}

void tr_member_set(struct tr_node *node, uint16_t index, struct tr_span address)
{
    struct tr_member *member = &node->members[index];
    TR_ASSERT(address.size > 0 && address.size <= TR_LOG_ADDRESS_MAX);
    memcpy(member->address, address.text, address.size);
    member->address[address.size] = '\0';
    member->address_size = (uint8_t)address.size;
    member->hash = tr_hash_xxh3(address.text, address.size);
    member->replica_bits = tr_replica_bits(address);
    node->member_count = index >= node->member_count ? index + 1u : node->member_count;
}

uint16_t tr_member_intern(struct tr_node *node, struct tr_span address, uint32_t most)
{
    uint16_t index = tr_member_find(node, address);
    if (index != TR_MEMBER_NONE || node->member_count >= most)
        return index;
    index = (uint16_t)node->member_count;
    tr_member_set(node, index, address);
    tr_members_log(node);
    return index;
}

void tr_members_log(struct tr_node *node)
{
    while (node->members_logged < node->member_count) {
        uint16_t index = (uint16_t)node->members_logged;
        if (!tr_log_member(&node->log, index, tr_member_address(node, index)))
            return;
        node->members_logged++;
    }
}

/* ---- the view ---- */

/* Bytes for the map of the largest view there can be. */
size_t tr_view_map_size(void)
{
    static char longest[TR_LOG_ADDRESS_MAX + 1];
    struct tryst_place_node nodes[TR_VIEW_NODES_MAX];
    memset(longest, 'x', TR_LOG_ADDRESS_MAX);
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
    uint64_t id = tr_hash_xxh3(placement.strategy, strlen(placement.strategy));
    for (uint32_t i = 0; i < count; i++)
        id += tr_hash_mix(tr_hash_xxh3(nodes[i].address.text, nodes[i].address.size) +
                          (uint64_t)nodes[i].role);
    return id;
}

/* False: it is no view, or names more nodes than there is room for; the one before stays. */
bool tr_view_set(struct tr_node *node, const struct tr_view_node *nodes, uint32_t count)
{
    struct tryst_place_node placed[TR_VIEW_NODES_MAX];
    uint16_t members[TR_VIEW_NODES_MAX];
    struct tr_view *view = &node->view;
    uint32_t new_count = 0;
    if (count > TR_VIEW_NODES_MAX)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        uint16_t member = tr_member_intern(node, nodes[i].address, TR_LOG_NODES_MAX);
        if (member == TR_MEMBER_NONE)
            return false;
        if (nodes[i].role == TR_ROLE_LEAVING)
            continue;
        placed[new_count] = (struct tryst_place_node){.name = node->members[member].address};
        members[new_count++] = member;
    }
    sort_nodes(placed, members, new_count);
    size_t fault = 0;
    if (new_count == 0 || tryst_place_map_init(view->map, view->map_size, &placement, placed,
                                               new_count, &fault) != TRYST_PLACE_OK)
        return false;
    TR_ASSERT(tryst_place_workspace_size(view->map, new_count) <= view->workspace_size);
    for (uint32_t i = 0; i < node->member_count; i++)
        node->members[i].role = TR_ROLE_NONE;
    for (uint32_t i = 0; i < count; i++)
        node->members[tr_member_find(node, nodes[i].address)].role = nodes[i].role;
    memcpy(view->placed, members, new_count * sizeof members[0]);
    view->count = new_count;
    view->id = id_of(nodes, count);
    return true;
}

bool tr_view_has_others(const struct tr_node *node)
{
    for (uint32_t i = 1; i < node->member_count; i++) {
        if (node->members[i].role != TR_ROLE_NONE)
            return true;
    }
    return false;
}

unsigned tr_place(const struct tr_node *node, tr_timer_id id, unsigned want, uint16_t *list)
{
    uint32_t nodes[TR_VIEW_NODES_MAX];
    const struct tr_view *view = &node->view;
    want = want < view->count ? want : view->count;
    size_t count = tryst_place_lookup(view->map, tryst_place_key_of_id(view->map, id), want, nodes,
                                      view->workspace);
    for (size_t i = 0; i < count; i++)
        list[i] = view->placed[nodes[i]];
    return (unsigned)count;
}
