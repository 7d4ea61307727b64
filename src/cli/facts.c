/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/facts.h"

#include <stdlib.h>
#include <string.h>

#define DEPTH_MAX 8

static void add_fact(struct tr_facts *facts, const struct tr_span *keys, unsigned depth,
                     struct tr_span value)
{
    if (facts->count == TR_FACTS_MAX)
        return;
    struct tr_fact *fact = &facts->list[facts->count++];
    size_t size = 0;
    fact->value = value;
    for (unsigned i = 1; i <= depth && i < DEPTH_MAX; i++) {
        size_t room = TR_FACT_PATH - size - 1;
        size_t more = keys[i].size < room ? keys[i].size : room;
        if (more == 0)
            continue;
        if (size > 0 && room > 0) {
            fact->path[size++] = '.';
            more -= more == room;
        }
        memcpy(fact->path + size, keys[i].text, more);
        size += more;
    }
    fact->path[size] = '\0';
}

void tr_facts_read(struct tr_json *json, struct tr_facts *facts)
{
    struct tr_span keys[DEPTH_MAX] = {{NULL, 0}};
    unsigned base = json->depth - 1;
    facts->count = 0;
    while (json->depth > base) {
        enum tr_json_token token = tr_json_next(json);
        unsigned depth = json->depth - base;
        bool is_inside = json->depth > base && depth < DEPTH_MAX;
        if (token == TR_JSON_BAD || token == TR_JSON_END)
            return;
        if (token == TR_JSON_KEY && is_inside)
            keys[depth] = json->text;
        else if ((token == TR_JSON_OBJECT || token == TR_JSON_ARRAY) && is_inside)
            keys[depth] = (struct tr_span){NULL, 0};
        else if (token == TR_JSON_STRING || token == TR_JSON_NUMBER)
            add_fact(facts, keys, depth, json->text);
        else if (token == TR_JSON_TRUE)
            add_fact(facts, keys, depth, TR_SPAN("yes"));
    }
}

const struct tr_fact *tr_fact_find(const struct tr_facts *facts, const char *path)
{
    for (unsigned i = 0; i < facts->count; i++) {
        if (strcmp(facts->list[i].path, path) == 0)
            return &facts->list[i];
    }
    return NULL;
}

struct tr_span tr_fact_value(const struct tr_facts *facts, const char *path)
{
    const struct tr_fact *fact = tr_fact_find(facts, path);
    return fact != NULL ? fact->value : (struct tr_span){"", 0};
}

uint64_t tr_fact_number(const struct tr_facts *facts, const char *path)
{
    char digits[24] = "";
    struct tr_span value = tr_fact_value(facts, path);
    memcpy(digits, value.text, value.size < sizeof digits ? value.size : sizeof digits - 1);
    return strtoull(digits, NULL, 10);
}
