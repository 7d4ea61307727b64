/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/timer.h"

#include <stdlib.h>
#include <string.h>

bool tr_write_seconds(const char *text, char *out, size_t size)
{
    static const struct {
        const char *unit;
        double seconds;
    } units[] = {{"ms", 0.001}, {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}, {"w", 604800}};
    double sum = 0;
    do {
        char *end = NULL;
        if (text[0] < '0' || text[0] > '9')
            return false;
        double value = strtod(text, &end);
        bool is_bare = *end == '\0';
        size_t i = 0;
        while (!is_bare && i < sizeof units / sizeof units[0] &&
               (strncmp(end, units[i].unit, strlen(units[i].unit)) != 0 ||
                (end[strlen(units[i].unit)] > '9')))
            i++;
        if (!is_bare && i == sizeof units / sizeof units[0])
            return false;
        sum += value * (is_bare ? 1 : units[i].seconds);
        text = is_bare ? end : end + strlen(units[i].unit);
    } while (*text != '\0');
    snprintf(out, size, "%.3f", sum);
    return true;
}

static void put_string(struct tr_writer *out, const char *text)
{
    tr_put_json_string(out, (struct tr_span){text, strlen(text)});
}

/* How often it pops. */
static bool put_repeats(struct tr_writer *out, const struct tr_timer_asked *asked)
{
    char seconds[64];
    if (asked->count != NULL && asked->repeat != NULL) {
        tr_usage_error("timer", "--count or --repeat-for, not both");
        return false;
    }
    if (asked->count != NULL) {
        if (asked->count[0] == '\0' || asked->count[strspn(asked->count, "0123456789")] != '\0') {
            tr_usage_error("timer", "--count %s is no number", asked->count);
            return false;
        }
        tr_put_text(out, ",\"count\":");
        tr_put_text(out, asked->count);
    } else if (asked->repeat != NULL && strcmp(asked->repeat, "forever") == 0) {
        tr_put_text(out, ",\"repeat-for\":\"forever\"");
    } else if (asked->repeat != NULL) {
        if (!tr_write_seconds(asked->repeat, seconds, sizeof seconds)) {
            tr_usage_error("timer",
                           "--repeat-for %s is no duration such as 30s, 15m or 2h, nor forever",
                           asked->repeat);
            return false;
        }
        tr_put_text(out, ",\"repeat-for\":");
        tr_put_text(out, seconds);
    }
    return true;
}

static void put_text(struct tr_writer *out, const char *name, const char *value)
{
    if (value == NULL)
        return;
    if (out->bytes[out->size - 1] != '{')
        tr_put_text(out, ",");
    put_string(out, name);
    tr_put_text(out, ":");
    put_string(out, value);
}

static bool put_seconds(struct tr_writer *out, const char *name, const char *option,
                        const char *value)
{
    char seconds[64];
    if (value == NULL)
        return true;
    if (!tr_write_seconds(value, seconds, sizeof seconds)) {
        tr_usage_error("timer", "%s %s is no duration such as 30s, 15m or 2h", option, value);
        return false;
    }
    if (out->bytes[out->size - 1] != '{')
        tr_put_text(out, ",");
    put_string(out, name);
    tr_put_text(out, ":");
    tr_put_text(out, seconds);
    return true;
}

static bool put_timing(struct tr_writer *out, const struct tr_timer_asked *asked)
{
    tr_put_text(out, "{\"timing\":{");
    if (!put_seconds(out, "interval", "--in", asked->in) ||
        !put_seconds(out, "jitter", "--jitter", asked->jitter))
        return false;
    put_text(out, "at", asked->at);
    put_text(out, "cron", asked->cron);
    put_text(out, "zone", asked->zone);
    put_text(out, "until", asked->until);
    put_text(out, "missed", asked->missed);
    return put_repeats(out, asked);
}

/* How it is called, beyond whom and with what. */
static bool put_call(struct tr_writer *out, const struct tr_timer_asked *asked)
{
    put_text(out, "method", asked->method);
    if (!put_seconds(out, "timeout", "--timeout", asked->timeout))
        return false;
    for (unsigned i = 0; i < asked->header_count; i++) {
        const char *colon = strchr(asked->headers[i], ':');
        if (colon == NULL) {
            tr_usage_error("timer", "--header %s is not 'Name: value'", asked->headers[i]);
            return false;
        }
        tr_put_text(out, i == 0 ? ",\"headers\":{" : ",");
        tr_put_json_string(
            out, (struct tr_span){asked->headers[i], (size_t)(colon - asked->headers[i])});
        tr_put_text(out, ":");
        put_string(out, colon + 1 + strspn(colon + 1, " "));
    }
    tr_put_text(out, asked->header_count > 0 ? "}" : "");
    return true;
}

bool tr_timer_put_body(struct tr_writer *out, const struct tr_timer_asked *asked)
{
    if (!put_timing(out, asked))
        return false;
    tr_put_text(out, "},\"callback\":{\"http\":{\"uri\":");
    put_string(out, asked->to);
    tr_put_text(out, ",\"opaque\":");
    tr_put_json_string(out, asked->text);
    if (asked->content_type != NULL) {
        tr_put_text(out, ",\"content-type\":");
        put_string(out, asked->content_type);
    }
    if (!put_call(out, asked))
        return false;
    tr_put_text(out, "}}");
    if (asked->factor != NULL) {
        tr_put_text(out, ",\"reliability\":{\"replication-factor\":");
        tr_put_text(out, asked->factor);
        tr_put_text(out, "}");
    }
    for (unsigned i = 0; i < asked->tag_count; i++) {
        tr_put_text(out, i == 0 ? ",\"statistics\":{\"tag-info\":[{\"type\":" : ",{\"type\":");
        put_string(out, asked->tags[i]);
        tr_put_text(out, i + 1 == asked->tag_count ? "}]}" : "}");
    }
    tr_put_text(out, "}");
    return true;
}
