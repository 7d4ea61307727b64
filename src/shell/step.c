/* SPDX-License-Identifier: Apache-2.0 */
/* One step of the node, and the clocks that it is told. */
#include "shell/daemon.h"

#include "base/assert.h"

#include <time.h>

uint64_t tr_clock_us(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

uint64_t tr_boot_us(void)
{
    return tr_clock_us(CLOCK_BOOTTIME);
}

uint64_t tr_daemon_clock_us(const struct tr_daemon *daemon)
{
    const struct tr_test_clock *clock = &daemon->test_clock;
    return clock->is_frozen ? clock->frozen_us : tr_boot_us() + clock->skew_us;
}

void tr_daemon_step(struct tr_daemon *daemon, struct tr_event *event)
{
    TR_ASSERT(!daemon->is_stepping);
    daemon->is_stepping = true;
    daemon->has_events = true;
    tr_rest_event(&daemon->rest, event->kind);
    daemon->now_us = tr_daemon_clock_us(daemon);
    event->now_ms = daemon->now_us / 1000;
    daemon->stepped_ms = event->now_ms;
    event->wall_ms = (daemon->now_us + daemon->wall_base_us) / 1000;
    tr_node_step(daemon->node, event, daemon->effects);
    for (uint32_t i = 0; i < daemon->effects->count; i++)
        daemon->carry_out(daemon, &daemon->effects->items[i]);
    daemon->is_stepping = false;
}

void tr_daemon_asked(struct tr_daemon *daemon)
{
    daemon->has_events = true;
    tr_rest_awaited(&daemon->rest);
}

void tr_daemon_look_at_clock(struct tr_daemon *daemon)
{
    struct tr_event event = {.kind = TR_EVENT_TICK, .has_more = true};
    daemon->now_us = tr_daemon_clock_us(daemon);
    if (daemon->now_us / 1000 != daemon->stepped_ms)
        tr_daemon_step(daemon, &event);
}
