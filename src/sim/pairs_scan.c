/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/pairs_parts.h"

#include "base/assert.h"

#include <string.h>

/* Nodes that have to have a key, so that some of them are there whenever a scan is answered at
 * all. */
static unsigned kept_by(const struct tr_definition *keys)
{
    return keys->writes > 1 ? keys->writes : keys->copies;
}

/* Whether so many nodes have what was acknowledged of a key, of those that held keys before a
 * change which is under way. */
static bool is_kept(const struct world *world, uint32_t key)
{
    const struct sim_pairs *pairs = world->pairs;
    const struct tr_roster *roster = sim_roster(world);
    struct tr_span name = {pairs->names[key], strlen(pairs->names[key])};
    unsigned count = 0;
    if (roster == NULL || world->model.lost_ms > 0)
        return false;
    for (uint32_t i = 0; i < roster->count; i++) {
        const struct machine *machine =
            &world->machines[sim_pairs_machine(world, tr_roster_address(roster, i))];
        struct tr_pair pair;
        bool is_old =
            roster->nodes[i].role == TR_ROLE_STAYING || roster->nodes[i].role == TR_ROLE_LEAVING;
        count += is_old && machine->is_ready && tr_node_pair(machine->node, name, &pair) &&
                 pair.version >= pairs->acked[key];
    }
    return count >= kept_by(&roster->keys) && count >= kept_by(&roster->before);
}

void sim_pairs_scan_begin(struct world *world, uint32_t index)
{
    struct sim_pairs *pairs = world->pairs;
    pairs->scan =
        (struct key_scan){.is_on = true, .machine = index, .is_sure = sim_pairs_are_sure(world)};
    for (uint32_t i = 0; i < KEYS; i++)
        pairs->scan.was_throughout[i] = pairs->acked[i] > 0;
    for (uint32_t i = 0; i < KEYS; i++)
        pairs->scan.was_kept[i] = is_kept(world, i);
    for (uint32_t i = 1; i < pairs->write_count; i++) {
        const struct key_write *write = &pairs->writes[i];
        bool may_end = write->is_end || write->expires_ms != NEVER;
        bool is_it = !write->is_refused &&
                     (!write->is_acked || write->version >= pairs->acked[write->key % KEYS]);
        if (write->key < KEYS && may_end && is_it)
            pairs->scan.was_throughout[write->key] = false;
    }
    sim_trace(world, "client scans on %s", sim_name(index));
}

static void end_scan(struct world *world)
{
    struct key_scan *scan = &world->pairs->scan;
    scan->is_on = false;
    bool is_calm = scan->is_sure && sim_pairs_are_sure(world);
    for (uint32_t i = 0; i < KEYS; i++) {
        bool is_there = is_calm || (scan->was_kept[i] && is_kept(world, i));
        if (scan->was_throughout[i] && !scan->was_seen[i] && is_there) {
            sim_trace(world, "scan misses %s", world->pairs->names[i]);
            sim_break(world, "a scan misses a key that was there throughout");
        }
    }
}

void sim_pairs_scan_on(struct world *world)
{
    struct key_scan *scan = &world->pairs->scan;
    uint32_t index = scan->machine;
    struct machine *machine = &world->machines[index];
    struct tr_event event = {.kind = TR_EVENT_TICK};
    if (!machine->is_ready || machine->paused_until_ms > world->now_ms) {
        scan->is_on = false;
        return;
    }
    sim_step(world, index, &event);
    if (!machine->is_ready) {
        scan->is_on = false;
        return;
    }
    scan->token = ++world->pairs->token;
    uint32_t count = 1 + (uint32_t)sim_draw(world, 6);
    if (tr_node_ask_keys(machine->node, scan->token, TR_MEMBER_NONE, scan->cursor, count) !=
        TR_DONE)
        scan->is_on = false;
    sim_step(world, index, &event);
}

void sim_pairs_scan_hear(struct world *world, uint32_t index, const struct tr_effect *effect)
{
    struct sim_pairs *pairs = world->pairs;
    struct tr_reader reader =
        tr_reader_on(effect->of.key_page.keys.text, effect->of.key_page.keys.size);
    if (pairs == NULL || !pairs->scan.is_on || pairs->scan.token != effect->of.key_page.token ||
        index != pairs->scan.machine)
        return;
    pairs->scan.token = 0;
    if (effect->of.key_page.refusal != TR_DONE) {
        pairs->scan.is_on = false;
        return;
    }
    for (uint32_t i = 0; i < effect->of.key_page.count; i++) {
        struct tr_span key = tr_get_span(&reader);
        for (uint32_t k = 0; k < KEYS; k++) {
            struct tr_span name = {pairs->names[k], strlen(pairs->names[k])};
            pairs->scan.was_seen[k] |= tr_span_equals(key, name);
        }
    }
    pairs->scan.cursor = effect->of.key_page.cursor;
    if (pairs->scan.cursor == 0)
        end_scan(world);
}
