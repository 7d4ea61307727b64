/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/model.h"

#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

void sim_model_init(struct sim_model *model)
{
    *model = (struct sim_model){.count = 1, .least_lateness_ms = UINT64_MAX};
}

void sim_model_free(struct sim_model *model)
{
    free(model->writes);
}

uint32_t sim_model_ask(struct sim_model *model, struct sim_write write)
{
    if (model->cap == 0 || model->count >= model->cap) {
        model->cap = model->cap * 2 > 256 ? model->cap * 2 : 256;
        model->writes = realloc(model->writes, model->cap * sizeof *model->writes);
        TR_ASSERT(model->writes != NULL);
    }
    if (model->count == 1)
        model->writes[0] = (struct sim_write){0};
    write.is_starved = write.asked_ms < model->starved_ms;
    model->writes[model->count] = write;
    return model->count++;
}

void sim_model_starve(struct sim_model *model, uint64_t until_ms)
{
    model->starved_ms = until_ms > model->starved_ms ? until_ms : model->starved_ms;
    for (uint32_t i = 1; i < model->count; i++)
        model->writes[i].is_starved |= sim_write_is_open(&model->writes[i]);
}

void sim_model_redrive(struct sim_model *model, tr_timer_id id)
{
    for (uint32_t i = 1; i < model->count; i++)
        model->writes[i].is_redriven |= model->writes[i].id == id;
}

void sim_model_follow(struct sim_model *model, uint32_t number, uint32_t next)
{
    if (number != 0)
        model->writes[number].replaced_by = next;
}

static void broken(struct sim_model *model, uint32_t number, const char *what)
{
    if (model->broken == NULL && !model->is_off) {
        model->broken = what;
        model->broken_write = number;
    }
}

/* Whether a later write to the same id is known to have happened. */
static bool is_superseded(const struct sim_model *model, uint32_t number, bool with_maybe)
{
    for (uint32_t next = model->writes[number].replaced_by; next != 0;
         next = model->writes[next].replaced_by) {
        const struct sim_write *write = &model->writes[next];
        if (write->is_acked || (with_maybe && write->is_maybe))
            return true;
    }
    return false;
}

/* Somebody who knew all nodes was told that it is over. */
static bool is_over(const struct sim_model *model, uint32_t number)
{
    for (uint32_t next = model->writes[number].replaced_by; next != 0;
         next = model->writes[next].replaced_by) {
        if (model->writes[next].is_acked && !model->writes[next].is_torn &&
            model->writes[next].races != number)
            return true;
    }
    return false;
}

/* Everybody has had the time to hear of what came after it. */
static bool is_long_over(const struct sim_model *model, uint32_t number, uint64_t now_ms)
{
    if (model->lost_ms > 0 || model->writes[number].is_redriven)
        return false;
    for (uint32_t next = model->writes[number].replaced_by; next != 0;
         next = model->writes[next].replaced_by) {
        const struct sim_write *write = &model->writes[next];
        uint64_t since =
            write->acked_ms > model->impaired_ms ? write->acked_ms : model->impaired_ms;
        if (write->is_acked && !write->is_rash && (write->is_clear || !model->is_unordered) &&
            write->races != number && now_ms > since + SIM_GRACE_MS)
            return true;
    }
    return false;
}

uint64_t sim_write_due(const struct sim_write *write, uint64_t sequence)
{
    return write->is_cron ? write->from_ms + sequence * write->step_ms
                          : write->asked_ms + sequence * write->interval_ms;
}

/* Two nodes have it. Of a key that is not certain once its keyspace had one copy. */
static bool has_second(const struct sim_model *model, const struct sim_write *write)
{
    return write->copies >= 2 && !(write->is_key && model->has_single_keys);
}

void sim_model_fire(struct sim_model *model, uint32_t number, uint64_t sequence, uint64_t now_ms,
                    uint32_t epoch)
{
    if (number == 0 || number >= model->count) {
        broken(model, 0, "a callback nobody asked for");
        return;
    }
    struct sim_write *write = &model->writes[number];
    model->fires++;
    if (sequence == 0 || sequence > write->pops || sequence > SIM_POPS_MAX) {
        broken(model, number, "a pop beyond the last");
        return;
    }
    uint64_t due_ms = sim_write_due(write, sequence);
    if (now_ms + model->most_early_ms < due_ms && (write->copies >= 2 || !model->has_steps))
        broken(model, number, "a pop before its time");
    else if (now_ms >= due_ms && now_ms - due_ms < model->least_lateness_ms)
        model->least_lateness_ms = now_ms - due_ms;
    /* Later ones may have waited for a slow receiver. */
    bool is_first = sequence == 1 && write->fired[0] == 0 &&
                    (write->copies >= 2 || !model->has_restarts) &&
                    !(write->is_cron && model->has_zones);
    /* Nobody waits for what is not promised yet. */
    uint64_t from_ms = write->is_acked && write->acked_ms > due_ms ? write->acked_ms : due_ms;
    uint64_t key_late_ms = write->is_appointment ? model->key_late_ms + model->stop_late_ms : 0;
    uint64_t most_late_ms = model->most_late_ms + key_late_ms;
    if (!model->has_faults && model->most_late_ms > 0 && is_first &&
        now_ms > from_ms + most_late_ms)
        broken(model, number, "a pop too late, without a fault");
    if (model->lone_late_ms > 0 && is_first && write->is_acked && !write->has_key &&
        has_second(model, write) &&
        now_ms > from_ms + model->lone_late_ms + most_late_ms - model->most_late_ms)
        broken(model, number, "a pop too late, with a replica up");
    if (!model->has_faults && is_over(model, number))
        broken(model, number, "a pop after an acknowledged cancel or replace");
    if (is_long_over(model, number, now_ms))
        broken(model, number, "a pop long after a cancel or replace, with nothing wrong");
    if (write->is_refused && !write->is_maybe)
        broken(model, number, "a pop of a timer that was refused");
    if (!model->has_faults && !model->may_repeat && write->delivered[sequence - 1] == epoch + 1)
        broken(model, number, "a second pop after a success, without a crash");
    uint64_t delivered_ms = write->delivered_ms[sequence - 1];
    if (model->repeat_ms > 0 && delivered_ms > 0 && now_ms > delivered_ms + model->repeat_ms)
        broken(model, number, "a pop again, long after a success");
    if (model->is_once && !model->may_repeat && write->fired[sequence - 1] > 0)
        broken(model, number, "a pop twice, without a fault");
    write->fired[sequence - 1]++;
}

void sim_model_deliver(struct sim_model *model, uint32_t number, uint64_t sequence, uint64_t now_ms,
                       uint32_t epoch)
{
    if (number >= model->count || sequence < 1 || sequence > SIM_POPS_MAX)
        return;
    struct sim_write *write = &model->writes[number];
    write->delivered[sequence - 1] = epoch + 1;
    if (write->delivered_ms[sequence - 1] == 0)
        write->delivered_ms[sequence - 1] = now_ms;
}

bool sim_write_is_open(const struct sim_write *write)
{
    return write->asked_ms > 0 && !write->is_acked && !write->is_refused && !write->is_maybe;
}

void sim_model_forsake(struct sim_model *model, uint32_t number)
{
    struct sim_write *write = &model->writes[number];
    write->is_maybe = true;
    /* A create whose id somebody was given just before has not heard that it is taken. */
    if (write->namesake != 0) {
        write->races = write->namesake;
        model->writes[write->namesake].races = number;
    }
}

bool sim_model_is_promised(const struct sim_model *model, uint32_t number)
{
    const struct sim_write *write = &model->writes[number];
    bool is_lost = model->lost_ms > 0 && write->acked_ms <= model->lost_ms + SIM_GRACE_MS &&
                   !has_second(model, write);
    const struct sim_write *next = &model->writes[write->replaced_by];
    bool is_unclear = (model->is_unordered && ((write->follows != 0 && !write->is_clear) ||
                                               (write->replaced_by != 0 && !next->is_clear))) ||
                      write->is_rash || model->writes[write->replaced_by].is_rash;
    return write->is_acked && write->pops > 0 && !write->has_key && !is_lost && !is_unclear &&
           write->races == 0 && !is_superseded(model, number, true);
}

bool sim_model_is_cancelled(const struct sim_model *model, uint32_t number)
{
    const struct sim_write *write = &model->writes[number];
    return write->is_acked && write->pops == 0 && write->replaced_by == 0 && !write->is_rash &&
           write->races == 0 && (write->is_clear || !model->is_unordered) && model->lost_ms == 0 &&
           !write->is_outdated; /* nodes that it had never heard of may have had the timer */
}

/* The first write that was acknowledged and has not done all it should; 0: none. */
static uint32_t find_undone(const struct sim_model *model)
{
    for (uint32_t i = 1; i < model->count; i++) {
        const struct sim_write *write = &model->writes[i];
        if (!sim_model_is_promised(model, i) || write->is_long)
            continue;
        for (uint32_t pop = 0; pop < write->pops; pop++) {
            /* What has failed is a record of its own, of which there may have been one copy. */
            bool is_lost = model->lost_ms > 0 && model->has_full && write->fired[pop] > 0;
            if (write->delivered[pop] == 0 && !write->is_dead[pop] && !is_lost)
                return i;
        }
    }
    return 0;
}

bool sim_model_is_done(const struct sim_model *model)
{
    return find_undone(model) == 0;
}

void sim_model_finish(struct sim_model *model)
{
    uint32_t undone = find_undone(model);
    if (undone != 0)
        broken(model, undone, "an acknowledged timer did not pop");
}
