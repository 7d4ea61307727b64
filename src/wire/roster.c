/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/roster.h"

#include "base/hash.h"

#define FORMAT 1

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
    return false;
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
    roster->epoch++;
    tr_roster_seal(roster);
}

int tr_roster_compare(uint64_t epoch_a, uint64_t id_a, uint64_t epoch_b, uint64_t id_b)
{
    if (epoch_a != epoch_b)
        return epoch_a < epoch_b ? -1 : 1;
    return (id_a > id_b) - (id_a < id_b);
}

void tr_roster_put(struct tr_writer *out, const struct tr_roster *roster)
{
    TR_ASSERT(roster->count <= TR_VIEW_NODES_MAX);
    tr_put_number(out, FORMAT, 1);
    tr_put_number(out, roster->cluster, 8);
    tr_put_varint(out, roster->epoch);
    tr_put_varint(out, roster->count);
    for (uint32_t i = 0; i < roster->count; i++) {
        tr_put_span(out, tr_roster_address(roster, i));
        tr_put_number(out, (uint64_t)roster->nodes[i].role, 1);
    }
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
    return tr_roster_set(roster, address, (enum tr_role)role);
}

bool tr_roster_get(struct tr_reader *in, struct tr_roster *roster)
{
    const uint8_t *start = in->at;
    memset(roster, 0, sizeof *roster);
    bool is_known = tr_get_number(in, 1) == FORMAT;
    roster->cluster = tr_get_number(in, 8);
    roster->epoch = tr_get_varint(in);
    uint64_t count = tr_get_varint(in);
    if (!is_known || in->is_short || roster->epoch == 0 || roster->epoch > TR_EPOCH_MAX ||
        count > TR_VIEW_NODES_MAX)
        return false;
    for (uint64_t i = 0; i < count; i++) {
        if (!get_node(in, roster))
            return false;
    }
    roster->id = tr_hash_xxh3(start, (size_t)(in->at - start));
    return true;
}
