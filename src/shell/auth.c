/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/auth.h"

#include "proof/proof.h"
#include "shell/config_complete.h"
#include "shell/say.h"
#include "wire/hex.h"
#include "wire/text.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECOND_US 1000000u
#define FRESH_MS  30000 /* clocks of nodes may differ by less */
#define HASH_TEXT ((size_t)2 * TR_PROOF_SIZE)

static const struct tr_span node_mark = {"Tryst-Node ", 11};

/* ---- the file ---- */

static bool has_name(const struct tr_auth *auth, const struct tr_token *token)
{
    for (uint32_t i = 0; i < auth->count; i++) {
        if (strcmp(auth->tokens[i].name, token->name) == 0)
            return true;
    }
    return false;
}

static unsigned read_lines(struct tr_auth *auth, const char *path, struct tr_span text)
{
    unsigned faults = 0;
    for (unsigned number = 1; text.size > 0; number++) {
        const char *end = memchr(text.text, '\n', text.size);
        struct tr_span line = {text.text, end == NULL ? text.size : (size_t)(end - text.text)};
        text = tr_span_from(text, end == NULL ? text.size : line.size + 1);
        while (line.size > 0 && (line.text[0] == ' ' || line.text[0] == '\t'))
            line = tr_span_from(line, 1);
        if (line.size == 0 || line.text[0] == '#' || line.text[0] == '\r')
            continue;
        struct tr_token *token = &auth->tokens[auth->count];
        const char *wrong = auth->count == TR_TOKENS_MAX ? "there are more than 4,096 tokens"
                                                         : tr_token_parse(line, token);
        if (wrong == NULL && has_name(auth, token))
            wrong = "this name was used before";
        if (wrong != NULL) {
            tr_say(TR_ERROR, "%s:%u: %s; tryst token new writes such lines", path, number, wrong);
            faults++;
        } else {
            auth->count++;
        }
    }
    return faults;
}

static unsigned read_file(struct tr_auth *auth, const char *path)
{
    struct stat info;
    size_t size = 0;
    int file = open(path, O_RDONLY | O_CLOEXEC);
    char *text = file < 0 ? NULL : tr_config_read_whole(file, &size);
    unsigned faults = 1;
    if (file >= 0 && fstat(file, &info) == 0 && (info.st_mode & S_IROTH) != 0)
        tr_say(TR_WARNING, "[auth] tokens-file %s can be read by everybody: chmod o-r it", path);
    if (text == NULL)
        tr_say(TR_ERROR, "[auth] tokens-file %s: %s", path, strerror(errno));
    else
        faults = read_lines(auth, path, (struct tr_span){text, size});
    if (text != NULL && faults == 0 && auth->count == 0) {
        tr_say(TR_ERROR, "[auth] tokens-file %s has no token: nobody could ask for anything", path);
        faults = 1;
    }
    free(text);
    if (file >= 0)
        close(file);
    return faults;
}

/* Whoever was there before, by hash, has asked for what it has asked for. */
static void keep_allowances(const struct tr_auth *before, struct tr_auth *now)
{
    for (uint32_t i = 0; i < now->count; i++) {
        for (uint32_t k = 0; k < before->count; k++) {
            if (memcmp(before->tokens[k].hash, now->tokens[i].hash, TR_TOKEN_HASH) == 0)
                now->allowances[i] = before->allowances[k];
        }
    }
}

unsigned tr_auth_load(struct tr_auth *auth, const struct tr_config *config)
{
    unsigned faults = 0;
    *auth = (struct tr_auth){.is_on = config->tokens_file[0] != '\0'};
    if (!auth->is_on)
        return 0;
    auth->tokens = calloc(TR_TOKENS_MAX + 1, sizeof *auth->tokens);
    auth->allowances = calloc(TR_TOKENS_MAX + 1, sizeof *auth->allowances);
    if (auth->tokens == NULL || auth->allowances == NULL)
        abort();
    faults = read_file(auth, config->tokens_file);
    if (faults > 0)
        tr_auth_free(auth);
    return faults;
}

void tr_auth_replace(struct tr_auth *auth, struct tr_auth *next)
{
    keep_allowances(auth, next);
    next->failures = auth->failures;
    tr_auth_free(auth);
    *auth = *next;
}

void tr_auth_free(struct tr_auth *auth)
{
    free(auth->tokens);
    free(auth->allowances);
    *auth = (struct tr_auth){.is_on = false};
}

/* ---- rights ---- */

void tr_rights_all(struct tr_rights *rights)
{
    rights->is_known = rights->reads = rights->writes = rights->is_admin = true;
    rights->has_timers = rights->has_keys = true;
    rights->narrow.count = 0;
    rights->keys_count = 0;
    rights->pending = 0;
    rights->token = 0;
}

void tr_rights_copy(struct tr_rights *to, const struct tr_rights *from)
{
    *to = *from;
    for (unsigned i = 0; i < to->narrow.count; i++)
        to->narrow.any[i].text.text = to->text + (from->narrow.any[i].text.text - from->text);
    for (unsigned i = 0; i < to->keys_count; i++)
        to->keys[i].text = to->text + (from->keys[i].text - from->text);
}

static void grant(struct tr_rights *rights, const struct tr_token *token)
{
    *rights = (struct tr_rights){
        .is_known = true,
        .reads = token->reads,
        .writes = token->writes,
        .is_admin = token->is_admin,
        .has_timers = token->timers_count > 0 || token->keys_count == 0,
        .has_keys = token->keys_count > 0 || token->timers_count == 0,
        .narrow = {.count = token->timers_count},
        .keys_count = token->keys_count,
        .pending = token->pending,
    };
    memcpy(rights->text, token->text, token->text_size);
    for (unsigned i = 0; i < token->timers_count; i++) {
        const struct tr_token_text *text = &token->timers[i];
        rights->narrow.any[i].is_prefix = text->is_prefix;
        rights->narrow.any[i].text = (struct tr_span){rights->text + text->at, text->size};
    }
    for (unsigned i = 0; i < token->keys_count; i++)
        rights->keys[i] = (struct tr_span){rights->text + token->keys[i].at, token->keys[i].size};
}

void tr_auth_find(struct tr_auth *auth, struct tr_span secret, struct tr_rights *rights)
{
    uint8_t hash[TR_PROOF_SIZE];
    uint32_t found = auth->count;
    rights->is_known = false;
    tr_digest(secret, hash);
    for (uint32_t i = 0; i < auth->count; i++) {
        bool is_it = CRYPTO_memcmp(auth->tokens[i].hash, hash, TR_TOKEN_HASH) == 0;
        found = is_it ? i : found;
    }
    if (found == auth->count) {
        auth->failures++;
        return;
    }
    grant(rights, &auth->tokens[found]);
    rights->token = found + 1;
}

bool tr_auth_still_has(const struct tr_auth *auth, const uint8_t hash[TR_TOKEN_HASH])
{
    bool is_there = !auth->is_on;
    for (uint32_t i = 0; i < auth->count; i++)
        is_there |= CRYPTO_memcmp(auth->tokens[i].hash, hash, TR_TOKEN_HASH) == 0;
    return is_there;
}

void tr_auth_renew(const struct tr_auth *auth, const uint8_t hash[TR_TOKEN_HASH],
                   struct tr_rights *rights)
{
    for (uint32_t i = 0; i < auth->count; i++) {
        if (CRYPTO_memcmp(auth->tokens[i].hash, hash, TR_TOKEN_HASH) != 0)
            continue;
        grant(rights, &auth->tokens[i]);
        rights->token = i + 1;
    }
}

const uint8_t *tr_auth_hash(const struct tr_auth *auth, const struct tr_rights *rights)
{
    return rights->token > 0 && rights->token <= auth->count ? auth->tokens[rights->token - 1].hash
                                                             : NULL;
}

/* ---- how much ---- */

/* What is left grows with time, up to a second's worth; each request takes its part of a second. */
bool tr_auth_take(struct tr_auth *auth, const struct tr_rights *rights, uint64_t now_us,
                  uint64_t *wait_ms)
{
    if (rights->token == 0 || rights->token > auth->count ||
        auth->tokens[rights->token - 1].rate == 0)
        return true;
    struct tr_allowance *allowance = &auth->allowances[rights->token - 1];
    uint64_t part_us = SECOND_US / auth->tokens[rights->token - 1].rate;
    part_us = part_us > 0 ? part_us : 1;
    uint64_t grown_us = now_us > allowance->at_us ? now_us - allowance->at_us : 0;
    uint64_t left_us = allowance->left_us + (grown_us < SECOND_US ? grown_us : SECOND_US);
    allowance->left_us = left_us < SECOND_US ? left_us : SECOND_US;
    allowance->at_us = now_us;
    if (allowance->left_us < part_us) {
        *wait_ms = (part_us - allowance->left_us + 999) / 1000;
        return false;
    }
    allowance->left_us -= part_us;
    return true;
}

uint64_t tr_auth_rate(const struct tr_auth *auth, const struct tr_rights *rights, uint64_t *left)
{
    if (rights->token == 0 || rights->token > auth->count)
        return 0;
    uint64_t rate = auth->tokens[rights->token - 1].rate;
    *left = auth->allowances[rights->token - 1].left_us * rate / SECOND_US;
    return rate;
}

/* ---- what is seen ---- */

bool tr_rights_key(const struct tr_rights *rights, struct tr_span key)
{
    bool is_seen = rights->has_keys && rights->keys_count == 0;
    for (unsigned i = 0; i < rights->keys_count; i++)
        is_seen |= tr_span_starts(key, rights->keys[i]);
    return is_seen;
}

bool tr_rights_timer(const struct tr_rights *rights, const struct tr_tag *tags, size_t count,
                     struct tr_span name)
{
    return rights->has_timers && tr_narrow_sees(&rights->narrow, tags, count, name);
}

/* ---- between nodes ---- */

static void put_escaped(struct tr_writer *out, struct tr_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        tr_put_text(out, "%");
        tr_put_hex(out, (uint8_t)text.text[i], 2);
    }
}

/* False: it is longer than anything that a node would say. */
static bool prove(struct tr_span secret, struct tr_span line, struct tr_span words,
                  uint8_t proof[TR_PROOF_SIZE])
{
    uint8_t bytes[16384];
    struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
    tr_put_text(&out, "tryst node\n");
    tr_put_bytes(&out, line.text, line.size);
    tr_put_text(&out, "\n");
    tr_put_bytes(&out, words.text, words.size);
    tr_proof(secret, (struct tr_span){(const char *)bytes, out.size}, proof);
    return !out.is_full;
}

void tr_auth_put_node(struct tr_writer *out, struct tr_span secret, struct tr_span line,
                      tr_wall_ms now_ms, const struct tr_narrow *narrow)
{
    uint8_t proof[TR_PROOF_SIZE];
    tr_put_bytes(out, node_mark.text, node_mark.size);
    size_t at = out->size;
    tr_put_hex(out, now_ms, 16);
    tr_put_text(out, ",read,write");
    for (unsigned i = 0; narrow != NULL && i < narrow->count; i++) {
        tr_put_text(out, narrow->any[i].is_prefix ? ",prefix:" : ",tag:");
        put_escaped(out, narrow->any[i].text);
    }
    prove(secret, line, (struct tr_span){(const char *)out->bytes + at, out->size - at}, proof);
    tr_put_text(out, " ");
    for (unsigned i = 0; i < TR_PROOF_SIZE; i++)
        tr_put_hex(out, proof[i], 2);
}

bool tr_auth_hear_node(struct tr_span secret, struct tr_span line, struct tr_span value,
                       tr_wall_ms now_ms, struct tr_rights *rights)
{
    struct tr_token token = {.reads = false};
    uint8_t proof[TR_PROOF_SIZE];
    uint8_t shown[TR_PROOF_SIZE];
    uint64_t at_ms = 0;
    rights->is_known = false;
    if (secret.size == 0 || !tr_span_starts(value, node_mark) ||
        value.size < node_mark.size + 16 + 1 + HASH_TEXT)
        return false;
    value = tr_span_from(value, node_mark.size);
    struct tr_span words = {value.text, value.size - HASH_TEXT - 1};
    if (!tr_hex_bytes(tr_span_from(value, words.size + 1), shown, sizeof shown) ||
        !prove(secret, line, words, proof))
        return false;
    if (!tr_proof_equals(proof, shown) ||
        !tr_hex_number((struct tr_span){words.text, 16}, &at_ms) || at_ms > now_ms + FRESH_MS ||
        now_ms > at_ms + FRESH_MS || tr_token_parse_scopes(tr_span_from(words, 16), &token) != NULL)
        return false;
    grant(rights, &token);
    return true;
}
