/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/member.h"

#include "base/assert.h"
#include "base/hash.h"
#include "log/batch.h"
#include "wire/text.h"
#include "wire/timer_id.h"

struct tr_span tr_member_address(const struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(index < TR_LOG_NODES_MAX);
    const struct tr_member *member = &cluster->members[index];
    return (struct tr_span){member->address, member->address_size};
}

bool tr_member_is_named(const struct tr_cluster *cluster, uint16_t index)
{
    TR_ASSERT(cluster->member_count <= TR_LOG_NODES_MAX);
    return index < cluster->member_count && cluster->members[index].address_size > 0;
}

uint16_t tr_member_find(const struct tr_cluster *cluster, struct tr_span address)
{
    uint64_t hash = tr_hash_xxh3(address.text, address.size);
    for (uint32_t i = 0; i < cluster->member_count; i++) {
        if (cluster->members[i].hash == hash &&
            tr_span_equals(tr_member_address(cluster, (uint16_t)i), address))
            return (uint16_t)i;
    }
    return TR_MEMBER_NONE;
}

void tr_member_set(struct tr_cluster *cluster, uint16_t index, struct tr_span address)
{
    TR_ASSERT(index < TR_LOG_NODES_MAX);
    TR_ASSERT(address.size > 0 && address.size <= TR_LOG_ADDRESS_MAX);
    struct tr_member *member = &cluster->members[index];
    memcpy(member->address, address.text, address.size);
    member->address[address.size] = '\0';
    member->address_size = (uint8_t)address.size;
    member->hash = tr_hash_xxh3(address.text, address.size);
    member->replica_bits = tr_replica_bits(address);
    cluster->member_count = index >= cluster->member_count ? index + 1u : cluster->member_count;
}

uint16_t tr_member_intern(struct tr_cluster *cluster, struct tr_span address, uint32_t most)
{
    TR_ASSERT(most <= TR_LOG_NODES_MAX);
    uint16_t index = tr_member_find(cluster, address);
    if (index != TR_MEMBER_NONE || cluster->member_count >= most)
        return index;
    index = (uint16_t)cluster->member_count;
    tr_member_set(cluster, index, address);
    TR_ASSERT(tr_member_find(cluster, address) == index);
    tr_members_log(cluster);
    return index;
}

void tr_members_log(struct tr_cluster *cluster)
{
    TR_ASSERT(cluster->members_logged <= cluster->member_count);
    while (cluster->members_logged < cluster->member_count) {
        uint16_t index = (uint16_t)cluster->members_logged;
        if (!tr_log_member(cluster->log, index, tr_member_address(cluster, index)))
            return;
        cluster->members_logged++;
    }
}

void tr_members_complete(struct tr_cluster *cluster)
{
    TR_ASSERT(cluster->member_count > 0 && cluster->members[0].address_size > 0);
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        char name[16] = "lost-";
        struct tr_writer out = tr_writer_on(name + 5, sizeof name - 5);
        if (cluster->members[i].address_size > 0)
            continue;
        tr_put_decimal(&out, i);
        tr_member_set(cluster, (uint16_t)i, (struct tr_span){name, 5 + out.size});
    }
}
