/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/clock.h"

#include "log/batch.h"

uint64_t tr_clock_now(const struct tr_cluster *cluster)
{
    return (cluster->time->steady_ms + cluster->ahead_ms) << 16;
}

uint64_t tr_clock_stamp(struct tr_cluster *cluster, uint64_t above)
{
    struct tr_log *log = cluster->log;
    uint64_t before = cluster->last_stamp;
    uint64_t stamp = tr_clock_now(cluster);
    stamp = stamp > before ? stamp : before + 1;
    stamp = stamp > above ? stamp : above + 1;
    TR_ASSERT(stamp > before && stamp > above);
    cluster->last_stamp = stamp;
    if (stamp >= log->ceiling) {
        uint64_t ceiling = stamp + ((uint64_t)TR_CEILING_MS << 16);
        if (tr_log_number(log, TR_LOG_CEILING, ceiling))
            log->ceiling = ceiling;
    }
    return stamp;
}

void tr_clock_hear(struct tr_cluster *cluster, uint64_t stamp)
{
    uint64_t stamp_ms = stamp >> 16;
    uint64_t steady_ms = cluster->time->steady_ms;
    if (stamp_ms > steady_ms + TR_SKEW_MS)
        return;
    if (stamp_ms > steady_ms + cluster->ahead_ms)
        cluster->ahead_ms = stamp_ms - steady_ms;
    TR_ASSERT(cluster->ahead_ms <= TR_SKEW_MS || stamp_ms <= steady_ms + cluster->ahead_ms);
    cluster->last_stamp = stamp > cluster->last_stamp ? stamp : cluster->last_stamp;
}

uint64_t tr_clock_tell(const struct tr_cluster *cluster)
{
    uint64_t now_ms = tr_clock_now(cluster) >> 16;
    int64_t ahead_ms = (int64_t)(now_ms - cluster->time->wall_ms);
    ahead_ms = ahead_ms < INT16_MAX ? ahead_ms : INT16_MAX;
    ahead_ms = ahead_ms > INT16_MIN ? ahead_ms : INT16_MIN;
    return now_ms << 16 | (uint16_t)ahead_ms;
}

void tr_clock_read(const struct tr_cluster *cluster, struct tr_peer *peer, uint64_t stamp)
{
    int64_t ahead_ms = (int16_t)(stamp & UINT16_MAX);
    TR_ASSERT(peer->link == LINK_GREETED);
    peer->clock_ms = (int64_t)((stamp >> 16) - cluster->time->steady_ms);
    peer->skew_ms = (int64_t)((stamp >> 16) - cluster->time->wall_ms) - ahead_ms;
}

bool tr_clock_is_ahead(const struct tr_cluster *cluster)
{
    unsigned up = 0;
    unsigned behind = 0;
    for (uint32_t i = 1; i < cluster->member_count; i++) {
        const struct tr_peer *peer = &cluster->peers[i];
        up += peer->is_up;
        behind += peer->is_up && peer->clock_ms < -(int64_t)TR_SKEW_MS;
    }
    TR_ASSERT(behind <= up);
    if (behind * 2 > up)
        tr_cover(cluster->trial, RULE_SKEWED);
    return behind * 2 > up;
}
