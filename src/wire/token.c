/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/token.h"

#include "wire/hex.h"

#include <string.h>

#define MOST 1000000000u /* of a limit */

static const struct tr_span hash_mark = {"sha256:", 7};

static bool is_between(char c)
{
    return c == ' ' || c == '\t' || c == ',' || c == '\r' || c == '\n';
}

/* The next word, taken off the line. */
static struct tr_span next_word(struct tr_span *line)
{
    while (line->size > 0 && is_between(line->text[0]))
        *line = tr_span_from(*line, 1);
    size_t size = 0;
    while (size < line->size && !is_between(line->text[size]))
        size++;
    struct tr_span word = {line->text, size};
    *line = tr_span_from(*line, size);
    return word;
}

static bool read_number(struct tr_span text, uint64_t *value)
{
    *value = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9' || *value > MOST)
            return false;
        *value = *value * 10 + (uint64_t)(text.text[i] - '0');
    }
    return text.size > 0 && *value > 0 && *value <= MOST;
}

static bool keep(struct tr_token *token, struct tr_span text, struct tr_token_text *kept)
{
    size_t size = 0;
    if (!tr_percent_decode(text, '+', token->text + token->text_size,
                           (size_t)TR_TOKEN_TEXT - token->text_size, &size))
        return false;
    *kept = (struct tr_token_text){.at = token->text_size, .size = (uint16_t)size};
    token->text_size = (uint16_t)(token->text_size + size);
    return size > 0;
}

static const char *read_narrow(struct tr_token *token, struct tr_span text, bool is_prefix)
{
    if (token->timers_count == TR_TOKEN_SCOPES)
        return "more than 8 tags and prefixes";
    struct tr_token_text *kept = &token->timers[token->timers_count];
    if (!keep(token, text, kept))
        return "a tag or prefix is empty, too long, or badly percent-encoded";
    kept->is_prefix = is_prefix;
    token->timers_count++;
    return NULL;
}

static const char *read_keys(struct tr_token *token, struct tr_span text)
{
    if (token->keys_count == TR_TOKEN_SCOPES)
        return "more than 8 prefixes of keys";
    if (!keep(token, text, &token->keys[token->keys_count]))
        return "a prefix of keys is empty, too long, or badly percent-encoded";
    token->keys_count++;
    return NULL;
}

static const char *read_rate(struct tr_token *token, struct tr_span text)
{
    if (text.size > 2 && memcmp(text.text + text.size - 2, "/s", 2) == 0)
        text.size -= 2;
    return read_number(text, &token->rate) ? NULL : "rate must be as rate=100/s";
}

static const char *read_scope(struct tr_token *token, struct tr_span word)
{
    static const struct tr_span tag = {"tag:", 4};
    static const struct tr_span prefix = {"prefix:", 7};
    static const struct tr_span keys = {"keys:", 5};
    static const struct tr_span rate = {"rate=", 5};
    static const struct tr_span pending = {"pending=", 8};
    if (tr_span_equals(word, TR_SPAN("read")))
        token->reads = true;
    else if (tr_span_equals(word, TR_SPAN("write")))
        token->writes = true;
    else if (tr_span_equals(word, TR_SPAN("admin")))
        token->is_admin = token->reads = token->writes = true;
    else if (tr_span_starts(word, tag))
        return read_narrow(token, tr_span_from(word, tag.size), false);
    else if (tr_span_starts(word, prefix))
        return read_narrow(token, tr_span_from(word, prefix.size), true);
    else if (tr_span_starts(word, keys))
        return read_keys(token, tr_span_from(word, keys.size));
    else if (tr_span_starts(word, rate))
        return read_rate(token, tr_span_from(word, rate.size));
    else if (tr_span_starts(word, pending))
        return read_number(tr_span_from(word, pending.size), &token->pending)
                   ? NULL
                   : "pending must be a number, as pending=10000";
    else
        return "a scope is read, write, admin, tag:..., prefix:... or keys:...; a limit rate=100/s "
               "or pending=10000";
    return NULL;
}

static const char *check(const struct tr_token *token)
{
    bool has_tag = false;
    for (unsigned i = 0; i < token->timers_count; i++)
        has_tag |= !token->timers[i].is_prefix;
    if (!token->reads && !token->writes)
        return "it may do nothing: read, write or admin is missing";
    if (token->is_admin && token->timers_count + token->keys_count > 0)
        return "admin cannot be narrowed";
    if (token->pending > 0 && !has_tag)
        return "pending is a limit of tokens with a tag: scope";
    return NULL;
}

const char *tr_token_parse_scopes(struct tr_span words, struct tr_token *token)
{
    const char *wrong = NULL;
    struct tr_span word = next_word(&words);
    for (; word.size > 0 && wrong == NULL; word = next_word(&words))
        wrong = read_scope(token, word);
    return wrong != NULL ? wrong : check(token);
}

static bool is_printed(struct tr_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        if ((unsigned char)text.text[i] < ' ' || text.text[i] == 0x7f)
            return false;
    }
    return true;
}

const char *tr_token_parse(struct tr_span line, struct tr_token *token)
{
    *token = (struct tr_token){.reads = false};
    struct tr_span name = next_word(&line);
    if (name.size == 0 || name.size >= TR_TOKEN_NAME || !is_printed(name))
        return "a name has 1 to 63 bytes, and no control characters";
    memcpy(token->name, name.text, name.size);
    size_t end = line.size;
    while (end > 0 && is_between(line.text[end - 1]))
        end--;
    size_t start = end;
    while (start > 0 && !is_between(line.text[start - 1]))
        start--;
    struct tr_span hash = {line.text + start, end - start};
    if (!tr_span_starts(hash, hash_mark) ||
        !tr_hex_bytes(tr_span_from(hash, hash_mark.size), token->hash, TR_TOKEN_HASH))
        return "it does not end in sha256: and 64 hexadecimal digits";
    return tr_token_parse_scopes((struct tr_span){line.text, start}, token);
}
