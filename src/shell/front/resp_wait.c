/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/front/resp_wait.h"

#include "base/assert.h"
#include "base/hash.h"
#include "shell/front/resp_find.h"
#include "shell/front/resp_verbs.h"

#include <stdlib.h>
#include <string.h>

#define WAITS_EACH 1024
#define SPARE_SIZE 512  /* bytes of a command, of which some are kept when they are over: */
#define SPARES_MAX 2048 /* so many */
#define CACHE_LINE 64
#define INDEX_BITS 16 /* of a token: the command, */
#define ASKED_BITS 24 /* and which of its questions */
#define INDEX_MASK (((uint64_t)1 << INDEX_BITS) - 1)
#define ASKED_MASK (((uint64_t)1 << ASKED_BITS) - 1)

_Static_assert(TR_WAITS_MAX == 1u << INDEX_BITS, "a command is known by so many bits");

bool tr_resp_is_spread(const struct tr_server *server)
{
    return tr_node_is_spread(server->daemon->node);
}

static uint64_t hash_of(struct tr_span key)
{
    return tr_hash_xxh3(key.text, key.size);
}

/* ---- the table ---- */

/* False: no memory. */
static bool grow(struct tr_resp_waits *waits)
{
    uint32_t cap = waits->cap > 0 ? 2 * waits->cap : 64;
    struct tr_resp_wait **table = realloc(waits->table, cap * sizeof(struct tr_resp_wait *));
    if (table != NULL)
        waits->table = table;
    uint32_t *free_list = realloc(waits->free, cap * sizeof *free_list);
    if (free_list != NULL)
        waits->free = free_list;
    if (table == NULL || free_list == NULL)
        return false;
    for (uint32_t i = cap; i-- > waits->cap;) {
        waits->table[i] = NULL;
        waits->free[waits->free_count++] = i;
    }
    waits->cap = cap;
    return true;
}

/* Most commands are short, and as many are under way as there were before: they are taken from the
 * heap once. */
static struct tr_resp_wait *take_memory(struct tr_resp_waits *waits, size_t size)
{
    struct tr_resp_wait *wait = waits->spare;
    if (size > SPARE_SIZE || wait == NULL) {
        size = size > SPARE_SIZE ? size : SPARE_SIZE;
        wait = malloc(size);
        if (wait != NULL)
            wait->size = size;
        return wait;
    }
    waits->spare = wait->next;
    waits->spare_count--;
    return wait;
}

static void give_memory(struct tr_resp_waits *waits, struct tr_resp_wait *wait)
{
    if (wait->size > SPARE_SIZE || waits->spare_count == SPARES_MAX) {
        free(wait);
        return;
    }
    wait->next = waits->spare;
    waits->spare = wait;
    waits->spare_count++;
}

static void give_back(struct tr_server *server, struct tr_resp_wait *wait)
{
    struct tr_resp_waits *waits = server->waits;
    for (uint32_t i = 0; i < wait->asked_count; i++)
        free(wait->asked[i].value);
    if (wait->asked != &wait->first)
        free(wait->asked);
    tr_resp_out_free(&wait->out);
    waits->table[wait->index] = NULL;
    waits->free[waits->free_count++] = wait->index;
    waits->count--;
    give_memory(waits, wait);
}

/* A copy of the command that was read last. NULL: no memory. */
static struct tr_resp_wait *take_copy(struct tr_server *server)
{
    const struct tr_resp_command *command = &server->command;
    struct tr_resp_waits *waits = server->waits;
    size_t size = sizeof(struct tr_resp_wait) + command->count * sizeof(struct tr_span);
    for (uint32_t i = 0; i < command->count; i++)
        size += command->arguments[i].size + 1;
    if (waits->free_count == 0 && (waits->cap >= TR_WAITS_MAX || !grow(waits)))
        return NULL;
    struct tr_resp_wait *wait = take_memory(waits, size);
    if (wait == NULL)
        return NULL;
    size = wait->size;
    /* What lies behind is written before it is read. */
    memset(wait, 0, offsetof(struct tr_resp_wait, first));
    wait->size = size;
    wait->index = waits->free[--waits->free_count];
    wait->generation = ++waits->generation & 0xffffff;
    wait->arguments = (struct tr_span *)(wait + 1);
    wait->count = command->count;
    wait->asked = &wait->first;
    wait->asked_cap = 1;
    char *text = (char *)(wait->arguments + command->count);
    for (uint32_t i = 0; i < command->count; i++) {
        struct tr_span from = command->arguments[i];
        if (from.size > 0)
            memcpy(text, from.text, from.size);
        text[from.size] = '\0';
        wait->arguments[i] = (struct tr_span){text, from.size};
        text += from.size + 1;
    }
    waits->table[wait->index] = wait;
    waits->count++;
    return wait;
}

/* ---- asking ---- */

static uint64_t token_of(const struct tr_resp_wait *wait, uint32_t asked)
{
    return ((uint64_t)wait->generation << INDEX_BITS | wait->index) << ASKED_BITS | asked;
}

/* The next question of the run: a new one, or NULL if there is no memory for it. */
static struct tr_resp_asked *add(struct tr_resp_wait *wait)
{
    if (wait->asked_count == wait->asked_cap) {
        bool is_own = wait->asked != &wait->first;
        uint32_t cap = 2 * wait->asked_cap;
        if (cap > ASKED_MASK)
            return NULL;
        struct tr_resp_asked *larger = realloc(is_own ? wait->asked : NULL, cap * sizeof *larger);
        if (larger == NULL)
            return NULL;
        if (!is_own)
            *larger = wait->first;
        wait->asked = larger;
        wait->asked_cap = cap;
    }
    struct tr_resp_asked *asked = &wait->asked[wait->asked_count++];
    *asked = (struct tr_resp_asked){.is_done = false};
    return asked;
}

/* Keeps an answer, whose value is good for this step alone. */
static void keep(struct tr_resp_asked *asked, const struct tr_key_result *result)
{
    asked->is_done = true;
    asked->result = *result;
    asked->result.batch = 0; /* who has answered has it in its log */
    asked->value = NULL;
    size_t size = result->value.size + result->callback.size;
    if (size == 0)
        return;
    asked->value = malloc(size);
    if (asked->value == NULL) {
        asked->result =
            (struct tr_key_result){.outcome = TR_KEY_REFUSED, .refusal = TR_MEMORY_FULL};
        return;
    }
    if (result->value.size > 0)
        memcpy(asked->value, result->value.text, result->value.size);
    if (result->callback.size > 0)
        memcpy(asked->value + result->value.size, result->callback.text, result->callback.size);
    asked->result.value.text = asked->value;
    asked->result.callback.text = asked->value + result->value.size;
}

/* A command that reads and writes may be under way while others on its key are begun. */
static bool is_change(const struct tr_key_command *command)
{
    bool is_plain = command->verb == TR_KEY_SET && command->only_if == TR_IF_ANY &&
                    !command->wants_old && command->expiry != TR_EXPIRY_KEEP;
    return command->verb != TR_KEY_READ && !is_plain;
}

static void refuse(const struct tr_resp_call *call)
{
    TR_ASSERT(!call->wait->is_refused);
    call->wait->is_refused = true;
    call->session->change_count++;
}

bool tr_resp_wait_ask(struct tr_resp_call *call, const struct tr_key_command *command,
                      struct tr_key_result *result)
{
    struct tr_resp_wait *wait = call->wait;
    uint32_t number = wait->given++;
    if (number < wait->asked_count) {
        *result = wait->asked[number].result;
        return wait->asked[number].is_done;
    }
    if (wait->is_refused)
        return false;
    struct tr_resp_asked *asked = add(wait);
    if (asked == NULL) {
        *result = (struct tr_key_result){.outcome = TR_KEY_REFUSED, .refusal = TR_MEMORY_FULL};
        return true;
    }
    tr_daemon_asked(call->daemon);
    bool is_over = tr_node_ask_key(call->daemon->node, token_of(wait, number), command, result);
    bool is_full =
        is_over && (result->outcome == TR_KEY_AGAIN ||
                    (result->outcome == TR_KEY_REFUSED && result->refusal == TR_TOO_MANY_REQUESTS));
    if (is_full) {
        wait->asked_count--;
        refuse(call);
        return false;
    }
    if (is_over) {
        keep(asked, result);
        *result = asked->result;
        return true;
    }
    asked->is_change = is_change(command);
    call->session->change_count += asked->is_change;
    asked->hash = hash_of(command->key);
    wait->open++;
    return false;
}

bool tr_resp_wait_page(struct tr_resp_call *call, uint16_t only, uint64_t cursor, uint32_t count,
                       struct tr_resp_asked **page)
{
    struct tr_resp_wait *wait = call->wait;
    uint32_t number = wait->given++;
    if (number < wait->asked_count) {
        *page = &wait->asked[number];
        return wait->asked[number].is_done;
    }
    struct tr_resp_asked *asked = add(wait);
    *page = asked;
    if (asked == NULL) {
        call->out->is_lost = true; /* the connection closes */
        return false;
    }
    tr_daemon_asked(call->daemon);
    enum tr_result refusal =
        tr_node_ask_keys(call->daemon->node, token_of(wait, number), only, cursor, count);
    if (refusal == TR_TOO_MANY_REQUESTS) {
        wait->asked_count--;
        refuse(call);
        return false;
    }
    if (refusal != TR_DONE) {
        asked->result = (struct tr_key_result){.outcome = TR_KEY_REFUSED, .refusal = refusal};
        asked->is_done = true;
        return true;
    }
    wait->open++;
    return false;
}

/* ---- running ---- */

static void link_answered(struct tr_connection *connection)
{
    struct tr_resp_session *session = connection->resp;
    if (session->is_answered)
        return;
    session->is_answered = true;
    session->next_answered = connection->server->answered;
    connection->server->answered = connection;
}

static void run(struct tr_resp_wait *wait)
{
    struct tr_connection *connection = wait->connection;
    struct tr_resp_call call = {
        .connection = connection,
        .session = connection->resp,
        .daemon = connection->server->daemon,
        .verb = wait->verb,
        .arguments = wait->arguments,
        .count = wait->count,
        .out = &wait->out,
        .wait = wait,
    };
    if (wait->out.bytes == NULL)
        tr_resp_out_lend(&wait->out, wait->reply, sizeof wait->reply);
    wait->given = 0;
    call.session->change_count -= wait->is_refused;
    wait->is_refused = false;
    wait->out.is_third = connection->resp->out.is_third;
    tr_resp_run(&call);
    wait->is_over = !call.is_waiting;
    if (call.is_waiting && wait->open == 0)
        link_answered(connection); /* a table was full: it is tried again */
}

/* ---- beginning ---- */

static bool is_changing(const struct tr_resp_session *session, uint64_t hash)
{
    if (session->change_count == 0)
        return false;
    for (const struct tr_resp_wait *wait = session->waits; wait != NULL; wait = wait->next) {
        if (wait->is_refused)
            return true; /* it has yet to be asked */
        for (uint32_t i = 0; wait->open > 0 && i < wait->asked_count; i++) {
            const struct tr_resp_asked *asked = &wait->asked[i];
            if (!asked->is_done && asked->is_change && asked->hash == hash)
                return true;
        }
    }
    return false;
}

/* Whether it may be begun beside those that are under way. */
static bool may_begin(const struct tr_resp_session *session, const struct tr_resp_verb *verb,
                      const struct tr_resp_command *command)
{
    if (session->waits == NULL)
        return true;
    if (verb->first <= 0 || session->waits_last->is_alone || session->wait_count >= WAITS_EACH)
        return false;
    uint32_t last = verb->last >= 0 ? (uint32_t)verb->last : command->count - (uint32_t)-verb->last;
    for (uint32_t i = (uint32_t)verb->first; i <= last && i < command->count;
         i += (uint32_t)verb->step) {
        if (is_changing(session, hash_of(command->arguments[i])))
            return false;
    }
    return true;
}

enum tr_resp_begun tr_resp_wait_begin(struct tr_connection *connection,
                                      const struct tr_resp_verb *verb)
{
    struct tr_server *server = connection->server;
    struct tr_resp_session *session = connection->resp;
    bool is_spread =
        verb != NULL && tr_resp_traits(server, verb)->is_about_keys && tr_resp_is_spread(server);
    if (!is_spread)
        return session->waits == NULL ? TR_BEGUN_NOWHERE : TR_BEGUN_LATER;
    if (!may_begin(session, verb, &server->command))
        return TR_BEGUN_LATER;
    struct tr_resp_wait *wait = take_copy(server);
    if (wait == NULL)
        return session->waits == NULL ? TR_BEGUN_LOST : TR_BEGUN_LATER;
    wait->connection = connection;
    wait->verb = verb;
    /* Two read first, and write what follows from that. */
    wait->is_alone = verb->first <= 0 || strcmp(verb->name, "incrbyfloat") == 0 ||
                     strcmp(verb->name, "getex") == 0;
    wait->is_silent = session->mode != TR_RESP_ANSWERS;
    if (session->mode == TR_RESP_SKIPS)
        session->mode = TR_RESP_ANSWERS;
    wait->seed = tr_hash_mix(server->daemon->now_us ^ wait->generation);
    if (session->waits == NULL)
        session->waits = wait;
    else
        session->waits_last->next = wait;
    session->waits_last = wait;
    session->wait_count++;
    run(wait);
    return TR_BEGUN;
}

/* ---- answers ---- */

static struct tr_resp_asked *find(struct tr_server *server, uint64_t token,
                                  struct tr_resp_wait **wait)
{
    uint64_t index = token >> ASKED_BITS & INDEX_MASK;
    uint64_t number = token & ASKED_MASK;
    *wait = index < server->waits->cap ? server->waits->table[index] : NULL;
    if (*wait == NULL || (*wait)->generation != token >> (ASKED_BITS + INDEX_BITS) ||
        number >= (*wait)->asked_count || (*wait)->asked[number].is_done)
        return NULL;
    return &(*wait)->asked[number];
}

static uint64_t token_of_effect(const struct tr_effect *effect)
{
    return effect->kind == TR_EFFECT_KEY_PAGE ? effect->of.key_page.token : effect->of.key.token;
}

void tr_resp_wait_fetch(const struct tr_server *server, const struct tr_effect *effect)
{
    const struct tr_resp_waits *waits = server->waits;
    if (effect->kind != TR_EFFECT_KEY && effect->kind != TR_EFFECT_KEY_PAGE)
        return;
    uint64_t index = token_of_effect(effect) >> ASKED_BITS & INDEX_MASK;
    if (index >= waits->cap || waits->table[index] == NULL)
        return;
    const char *bytes = (const char *)waits->table[index];
    for (size_t at = 0; at < sizeof(struct tr_resp_wait); at += CACHE_LINE)
        __builtin_prefetch(bytes + at);
}

void tr_resp_wait_answer(struct tr_server *server, const struct tr_effect *effect)
{
    bool is_page = effect->kind == TR_EFFECT_KEY_PAGE;
    struct tr_resp_wait *wait = NULL;
    struct tr_resp_asked *asked = find(server, token_of_effect(effect), &wait);
    if (asked == NULL)
        return;
    struct tr_key_result result = {.outcome = TR_KEY_DONE};
    if (is_page) {
        if (effect->of.key_page.refusal != TR_DONE)
            result = (struct tr_key_result){.outcome = TR_KEY_REFUSED,
                                            .refusal = effect->of.key_page.refusal};
        result.value = effect->of.key_page.keys;
        asked->cursor = effect->of.key_page.cursor;
        asked->count = effect->of.key_page.count;
    } else {
        result = effect->of.key.result;
    }
    keep(asked, &result);
    if (wait->connection != NULL)
        wait->connection->resp->change_count -= asked->is_change;
    wait->open--;
    if (wait->open > 0)
        return;
    if (wait->connection != NULL)
        link_answered(wait->connection);
    else
        give_back(server, wait);
}

bool tr_resp_put_replies(struct tr_connection *connection)
{
    struct tr_resp_session *session = connection->resp;
    bool has_any = false;
    while (session->waits != NULL && session->waits->is_over) {
        struct tr_resp_wait *wait = session->waits;
        session->waits = wait->next;
        session->wait_count--;
        session->out.is_lost |= wait->out.is_lost;
        if (wait->out.size > 0)
            tr_resp_put_raw(&session->out, wait->out.bytes, wait->out.size);
        give_back(connection->server, wait);
        has_any = true;
    }
    if (session->waits == NULL)
        session->waits_last = NULL;
    return has_any;
}

bool tr_resp_waits_run(struct tr_server *server)
{
    struct tr_connection *connection = server->answered;
    bool has_any = connection != NULL;
    server->answered = NULL; /* who cannot go on is linked anew */
    while (connection != NULL) {
        struct tr_resp_session *session = connection->resp;
        struct tr_connection *next = session->next_answered;
        session->is_answered = false;
        if (!connection->stream.is_closed) {
            for (struct tr_resp_wait *wait = session->waits; wait != NULL; wait = wait->next) {
                if (wait->open == 0 && !wait->is_over)
                    run(wait);
            }
            if (tr_resp_put_replies(connection))
                tr_resp_replied(connection);
        }
        connection = next;
    }
    return has_any;
}

void tr_resp_waits_forsake(struct tr_connection *connection)
{
    struct tr_resp_session *session = connection->resp;
    struct tr_server *server = connection->server;
    for (struct tr_connection **link = &server->answered; *link != NULL;
         link = &(*link)->resp->next_answered) {
        if (*link == connection) {
            *link = session->next_answered;
            break;
        }
    }
    while (session->waits != NULL) {
        struct tr_resp_wait *wait = session->waits;
        session->waits = wait->next;
        wait->connection = NULL;
        if (wait->open == 0)
            give_back(server, wait);
    }
    session->wait_count = 0;
}

bool tr_resp_waits_open(struct tr_server *server)
{
    server->waits = calloc(1, sizeof *server->waits);
    return server->waits != NULL;
}

void tr_resp_waits_free(struct tr_server *server)
{
    for (uint32_t i = 0; i < server->waits->cap; i++) {
        if (server->waits->table[i] != NULL)
            give_back(server, server->waits->table[i]);
    }
    while (server->waits->spare != NULL) {
        struct tr_resp_wait *next = server->waits->spare->next;
        free(server->waits->spare);
        server->waits->spare = next;
    }
    free(server->waits->table);
    free(server->waits->free);
    free(server->waits);
}
