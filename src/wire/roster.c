/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/roster.h"

#include "base/hash.h"

/* Formats: without a keyspace, as it was before there were any; and with one. */
#define FORMAT_PLAIN 1
#define FORMAT_KEYS  2

/* The first node whose address is not below `address`. */
static uint32_t place_of(const struct tr_roster *roster, struct tr_span address)
{
    uint32_t low = 0;
    uint32_t high = roster->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (tr_span_compare(tr_roster_address(roster, middle), address) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_at(const struct tr_roster *roster, uint32_t place, struct tr_span address)
{
    return place < roster->count && tr_span_equals(tr_roster_address(roster, place), address);
}

enum tr_role tr_roster_role(const struct tr_roster *roster, struct tr_span address)
{
    uint32_t place = place_of(roster, address);
    return is_at(roster, place, address) ? roster->nodes[place].role : TR_ROLE_NONE;
}

struct tr_roster_node *tr_roster_find(struct tr_roster *roster, struct tr_span address)
{
    uint32_t place = place_of(roster, address);
    return is_at(roster, place, address) ? &roster->nodes[place] : NULL;
}

bool tr_definition_is_same(const struct tr_definition *a, const struct tr_definition *b)
{
    return a->partitions == b->partitions && a->copies == b->copies && a->reads == b->reads &&
           a->writes == b->writes && a->positions == b->positions && a->is_assumed == b->is_assumed;
}

static void move(struct tr_roster *roster, uint32_t from, uint32_t to)
{
    memmove(&roster->nodes[to], &roster->nodes[from],
            (roster->count - from) * sizeof roster->nodes[0]);
    roster->count = roster->count + to - from;
}

bool tr_roster_set(struct tr_roster *roster, struct tr_span address, enum tr_role role)
{
    TR_ASSERT(address.size > 0 && address.size <= TR_LOG_ADDRESS_MAX);
    uint32_t place = place_of(roster, address);
    bool is_there = is_at(roster, place, address);
    if (role == TR_ROLE_NONE) {
        if (is_there)
            move(roster, place + 1, place);
        return true;
    }
    if (!is_there && roster->count == TR_VIEW_NODES_MAX)
        return false;
    if (!is_there) {
        move(roster, place, place + 1);
        memset(&roster->nodes[place], 0, sizeof roster->nodes[place]);
        memcpy(roster->nodes[place].address, address.text, address.size);
        roster->nodes[place].address_size = (uint8_t)address.size;
    }
    roster->nodes[place].role = role;
    return true;
}

void tr_roster_seal(struct tr_roster *roster)
{
    uint8_t bytes[TR_ROSTER_SIZE_MAX];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_roster_put(&out, roster);
    TR_ASSERT(!out.is_full);
    roster->id = tr_hash_xxh3(bytes, out.size);
}

bool tr_roster_is_changing(const struct tr_roster *roster)
{
    for (uint32_t i = 0; i < roster->count; i++) {
        if (roster->nodes[i].role != TR_ROLE_STAYING)
            return true;
    }
    return !tr_definition_is_same(&roster->keys, &roster->before);
}

void tr_roster_finish(struct tr_roster *roster)
{
    TR_ASSERT(tr_roster_is_changing(roster));
    uint32_t kept = 0;
    for (uint32_t i = 0; i < roster->count; i++) {
        enum tr_role role = roster->nodes[i].role;
        if (role != TR_ROLE_STAYING && role != TR_ROLE_JOINING)
            continue;
        roster->nodes[kept] = roster->nodes[i];
        roster->nodes[kept++].role = TR_ROLE_STAYING;
    }
    roster->count = kept;
    roster->before = roster->keys;
    roster->epoch++;
    tr_roster_seal(roster);
}

int tr_roster_compare(uint64_t epoch_a, uint64_t id_a, uint64_t epoch_b, uint64_t id_b)
{
    if (epoch_a != epoch_b)
        return epoch_a < epoch_b ? -1 : 1;
    return (id_a > id_b) - (id_a < id_b);
}

void tr_roster_sort_positions(struct tr_roster_node *node)
{
    TR_ASSERT(node->position_count <= TR_POSITIONS_MAX);
    for (uint32_t i = 1; i < node->position_count; i++) {
        for (uint32_t k = i; k > 0 && node->positions[k - 1] > node->positions[k]; k--) {
            uint32_t position = node->positions[k];
            node->positions[k] = node->positions[k - 1];
            node->positions[k - 1] = position;
        }
    }
}

/* ---- encoding ---- */

static void put_definition(struct tr_writer *out, const struct tr_definition *keys)
{
    tr_put_varint(out, keys->partitions);
    tr_put_number(out, keys->copies, 1);
    tr_put_number(out, keys->reads, 1);
    tr_put_number(out, keys->writes, 1);
    tr_put_number(out, keys->positions, 1);
    tr_put_number(out, keys->is_assumed, 1);
}

static void put_node(struct tr_writer *out, const struct tr_roster *roster, uint32_t index)
{
    const struct tr_roster_node *node = &roster->nodes[index];
    TR_ASSERT(node->position_count <= TR_POSITIONS_MAX);
    tr_put_span(out, tr_roster_address(roster, index));
    tr_put_number(out, (uint64_t)node->role, 1);
    if (roster->keys.partitions == 0)
        return;
    tr_put_number(out, node->position_count, 1);
    for (uint32_t i = 0; i < node->position_count; i++)
        tr_put_varint(out, node->positions[i]);
}

void tr_roster_put(struct tr_writer *out, const struct tr_roster *roster)
{
    TR_ASSERT(roster->count <= TR_VIEW_NODES_MAX);
    bool has_keys = roster->keys.partitions > 0;
    TR_ASSERT(has_keys || roster->floor == 0);
    tr_put_number(out, has_keys ? FORMAT_KEYS : FORMAT_PLAIN, 1);
    tr_put_number(out, roster->cluster, 8);
    tr_put_varint(out, roster->epoch);
    if (has_keys) {
        put_definition(out, &roster->keys);
        put_definition(out, &roster->before);
        tr_put_number(out, roster->floor, 8);
    }
    tr_put_varint(out, roster->count);
    for (uint32_t i = 0; i < roster->count; i++)
        put_node(out, roster, i);
}

static bool get_definition(struct tr_reader *in, struct tr_definition *keys)
{
    keys->partitions = tr_get_varint(in);
    keys->copies = (uint8_t)tr_get_number(in, 1);
    keys->reads = (uint8_t)tr_get_number(in, 1);
    keys->writes = (uint8_t)tr_get_number(in, 1);
    keys->positions = (uint8_t)tr_get_number(in, 1);
    uint64_t is_assumed = tr_get_number(in, 1);
    keys->is_assumed = is_assumed == 1;
    return !in->is_short && is_assumed <= 1 && tr_definition_is_sound(keys);
}

bool tr_definition_is_sound(const struct tr_definition *keys)
{
    return keys->partitions > 0 && keys->partitions <= TR_PARTITIONS_MAX && keys->copies > 0 &&
           keys->copies <= TR_COPIES_MAX && keys->reads > 0 && keys->reads <= keys->copies &&
           keys->writes > 0 && keys->writes <= keys->copies && keys->positions > 0 &&
           keys->positions <= TR_POSITIONS_MAX;
}

/* Ascending: a position that is named twice would be two nodes' at once. */
static bool get_positions(struct tr_reader *in, const struct tr_roster *roster,
                          struct tr_roster_node *node)
{
    if (roster->keys.partitions == 0)
        return true;
    uint64_t count = tr_get_number(in, 1);
    if (in->is_short || count == 0 || count > TR_POSITIONS_MAX)
        return false;
    node->position_count = (uint8_t)count;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t position = tr_get_varint(in);
        if (in->is_short || position >= roster->keys.partitions ||
            (i > 0 && position <= node->positions[i - 1]))
            return false;
        node->positions[i] = (uint32_t)position;
    }
    return true;
}

static bool get_node(struct tr_reader *in, struct tr_roster *roster)
{
    struct tr_span address = tr_get_span(in);
    uint64_t role = tr_get_number(in, 1);
    bool is_sound = !in->is_short && address.size > 0 && address.size <= TR_LOG_ADDRESS_MAX &&
                    role > TR_ROLE_NONE && role <= TR_ROLE_LOST;
    uint32_t last = roster->count;
    if (!is_sound ||
        (last > 0 && tr_span_compare(tr_roster_address(roster, last - 1), address) >= 0))
        return false;
    return tr_roster_set(roster, address, (enum tr_role)role) &&
           get_positions(in, roster, &roster->nodes[last]);
}

bool tr_roster_get(struct tr_reader *in, struct tr_roster *roster)
{
    const uint8_t *start = in->at;
    memset(roster, 0, sizeof *roster);
    uint64_t format = tr_get_number(in, 1);
    roster->cluster = tr_get_number(in, 8);
    roster->epoch = tr_get_varint(in);
    if (in->is_short || roster->epoch > TR_EPOCH_MAX ||
        (format != FORMAT_PLAIN && format != FORMAT_KEYS))
        return false;
    if (format == FORMAT_KEYS &&
        (!get_definition(in, &roster->keys) || !get_definition(in, &roster->before) ||
         roster->keys.partitions != roster->before.partitions))
        return false;
    roster->floor = format == FORMAT_KEYS ? tr_get_number(in, 8) : 0;
    uint64_t count = tr_get_varint(in);
    if (in->is_short || count > TR_VIEW_NODES_MAX || roster->floor > UINT64_MAX / 2)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!get_node(in, roster))
            return false;
    }
    roster->id = tr_hash_xxh3(start, (size_t)(in->at - start));
    return true;
}
