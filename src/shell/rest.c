/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/rest.h"

#include <time.h>

#define GATHER_TURNS 2
#define REST_US      800   /* from when something went out */
#define SLICE_US     200   /* of a rest: answers that have come meanwhile wait no longer */
#define NAP_US       50    /* a rest that is shorter is not worth its wake-up */
#define WORK_ENOUGH  48    /* events that make a batch which need not wait for more */
#define CROWD_LEAST  16    /* clients: fewer make no batch that is worth a rest */
#define CROWD_US     32000 /* the period in which they are counted */
#define PROMPT_US    800   /* who asks so soon after an answer asks when it is answered */
#define PROMPT_PART  4     /* of those under way: so many keep the others from resting */

void tr_rest_event(struct tr_rest *rest, enum tr_event_kind kind)
{
    rest->is_busy = true;
    bool is_awaited = kind == TR_EVENT_REQUEST_RECEIVED || kind == TR_EVENT_FRAME_RECEIVED;
    rest->awaited += is_awaited;
    rest->work += is_awaited || kind == TR_EVENT_CALLBACK_ENDED;
}

void tr_rest_awaited(struct tr_rest *rest)
{
    rest->awaited++;
}

/* One that asks for the first time may do so no more, as those that connect for each request. */
void tr_rest_asked(struct tr_rest *rest, struct tr_rest_client *client, uint64_t now_us)
{
    bool is_prompt = client->under_way == 0 && now_us < client->answered_us + PROMPT_US;
    client->under_way++;
    client->prompt += is_prompt;
    rest->under_way++;
    rest->prompt += is_prompt;
    rest->askers += client->asked_in != 0 && client->asked_in != rest->period;
    client->asked_in = rest->period;
}

void tr_rest_gone(struct tr_rest *rest, struct tr_rest_client *client)
{
    rest->under_way -= client->under_way;
    rest->prompt -= client->prompt;
    client->under_way = 0;
    client->prompt = 0;
}

void tr_rest_answered(struct tr_rest *rest, struct tr_rest_client *client, uint64_t now_us)
{
    client->answered_us = now_us;
    client->under_way--;
    rest->under_way--;
    rest->prompt -= client->prompt; /* that was the first of those under way */
    client->prompt = 0;
}

void tr_rest_committed(struct tr_rest *rest)
{
    rest->gathering = GATHER_TURNS;
}

static void begin_period(struct tr_rest *rest, uint64_t now_us)
{
    bool is_next = now_us < rest->period_us + (uint64_t)2 * CROWD_US;
    rest->askers_last = is_next ? rest->askers : 0;
    rest->askers = 0;
    rest->period++;
    rest->period_us = now_us;
}

/* Somebody may ask meanwhile, or nobody waits for what there is. */
static bool may_wait(const struct tr_rest *rest)
{
    bool is_crowd = rest->askers_last >= CROWD_LEAST && rest->under_way < rest->askers_last / 2;
    bool is_held = rest->prompt * PROMPT_PART >= rest->under_way && rest->prompt > 0;
    return rest->awaited == 0 || (is_crowd && !is_held);
}

bool tr_rest_takes(struct tr_rest *rest, uint64_t now_us)
{
    if (rest->gathering > 0 && rest->is_busy) {
        rest->gathering--;
        rest->is_busy = false;
        return true;
    }
    rest->gathering = 0;
    if (rest->work == 0 || rest->work >= WORK_ENOUGH || rest->handed >= WORK_ENOUGH)
        return false;
    uint64_t since_us = now_us - rest->handed_us;
    if (since_us >= REST_US - NAP_US || !may_wait(rest))
        return false;
    uint64_t left_us = REST_US - since_us < SLICE_US ? REST_US - since_us : SLICE_US;
    nanosleep(&(struct timespec){.tv_nsec = (long)left_us * 1000}, NULL);
    return true;
}

void tr_rest_ends(struct tr_rest *rest, uint64_t now_us)
{
    if (rest->work > 0) {
        rest->handed_us = now_us;
        rest->handed = rest->work;
    }
    rest->work = 0;
    rest->awaited = 0;
    rest->is_busy = false;
    if (now_us >= rest->period_us + CROWD_US)
        begin_period(rest, now_us);
}
