/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/body_reader.h"

#include "base/assert.h"
#include "wire/suggest.h"

void tr_members_init(struct tr_members *members, const char *object)
{
    members->object = object;
    members->count = 0;
}

void tr_body_point(struct tr_body_reader *reader, const char *path, struct tr_span member)
{
    static const char tags[] = "statistics.tag-info.";
    char with_place[TR_POINTER_MAX];
    if (strcmp(path, TR_BODY) == 0)
        path = "";
    if (reader->tag > 0 && strncmp(path, tags, sizeof tags - 2) == 0) {
        struct tr_writer writer = tr_writer_on(with_place, sizeof with_place - 1);
        tr_put_text(&writer, tags);
        tr_put_decimal(&writer, reader->tag - 1);
        if (strlen(path) >= sizeof tags - 1) {
            tr_put_text(&writer, ".");
            tr_put_text(&writer, path + sizeof tags - 1);
        }
        with_place[writer.size] = '\0';
        path = with_place;
    }
    tr_problem_point(reader->problem, path, member);
}

bool tr_body_refuse(struct tr_body_reader *reader, const char *path, const char *what)
{
    tr_problem_set(reader->problem, 400, path, what, NULL);
    tr_body_point(reader, path, (struct tr_span){0});
    return false;
}

/* The beginning of a name that a client has given. */
struct shown {
    char text[33];
};

static struct shown shorten(struct tr_span name)
{
    struct shown shown = {""};
    memcpy(shown.text, name.text,
           name.size < sizeof shown.text ? name.size : sizeof shown.text - 1);
    return shown;
}

static bool refuse_twice(struct tr_body_reader *reader, const char *object, struct tr_span name)
{
    tr_problem_set(reader->problem, 400, object, " has a member twice: ", shorten(name).text, NULL);
    tr_body_point(reader, object, name);
    return false;
}

bool tr_body_refuse_unknown(struct tr_body_reader *reader, const char *object,
                            struct tr_body_names names)
{
    struct tr_span name = reader->json.text;
    for (unsigned i = 0; names.foreign != NULL && names.foreign[i] != NULL; i++) {
        if (tr_span_equals(name, (struct tr_span){names.foreign[i], strlen(names.foreign[i])}))
            return tr_body_skip(reader);
    }
    if (reader->limits->ignores_unknown)
        return tr_body_skip(reader);
    const char *meant = tr_suggest(name, names.known);
    tr_problem_set(reader->problem, 400, object, " has no member ", shorten(name).text,
                   meant != NULL ? ": did you mean " : NULL, meant, "?", NULL);
    tr_body_point(reader, object, name);
    return false;
}

bool tr_body_refuse_json(struct tr_body_reader *reader)
{
    TR_ASSERT(reader->json.fault != NULL);
    char offset[21];
    struct tr_writer writer = tr_writer_on(offset, sizeof offset - 1);
    tr_put_decimal(&writer, tr_json_offset(&reader->json));
    offset[writer.size] = '\0';
    tr_problem_set(reader->problem, 400, "the body is not JSON: ", reader->json.fault, " at byte ",
                   offset, NULL);
    return false;
}

bool tr_body_next(struct tr_body_reader *reader, struct tr_members *members, bool *is_done)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    *is_done = token == TR_JSON_OBJECT_END;
    if (*is_done)
        return false;
    if (token != TR_JSON_KEY)
        return tr_body_refuse_json(reader);
    struct tr_span name = reader->json.text;
    for (unsigned i = 0; i < members->count; i++) {
        if (tr_span_equals(members->names[i], name))
            return refuse_twice(reader, members->object, name);
    }
    if (members->count == TR_MEMBERS_MAX)
        return tr_body_refuse(reader, members->object, " has more than 64 members");
    TR_ASSERT(members->count < TR_MEMBERS_MAX);
    members->names[members->count++] = name;
    return true;
}

bool tr_body_object(struct tr_body_reader *reader, const char *path)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    return token == TR_JSON_OBJECT || tr_body_refuse(reader, path, " must be an object");
}

bool tr_body_string(struct tr_body_reader *reader, const char *path, struct tr_span *out)
{
    enum tr_json_token token = tr_json_next(&reader->json);
    if (token == TR_JSON_BAD)
        return tr_body_refuse_json(reader);
    if (token != TR_JSON_STRING)
        return tr_body_refuse(reader, path, " must be a string");
    *out = reader->json.text;
    return true;
}

bool tr_body_skip(struct tr_body_reader *reader)
{
    return tr_json_skip(&reader->json, tr_json_next(&reader->json)) || tr_body_refuse_json(reader);
}
