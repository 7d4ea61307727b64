/* SPDX-License-Identifier: Apache-2.0 */
/* A pop as an HTTP request. */
#include "base/hash.h"
#include "proof/webhook.h"
#include "shell/callback/call.h"
#include "wire/plan.h"

#define CE_TYPE "io.tryst.timer.pop"

size_t tr_callback_request_bound(const struct tr_record *record, const struct tr_uri *uri)
{
    return 2048 + TR_TYPE_MAX + record->uri.size + record->opaque.size + record->plan.size +
           4 * record->own.size + uri->authority.size +
           (size_t)TR_WEBHOOK_KEYS * TR_WEBHOOK_SIGNATURE;
}

/* Which pop it is, the same at each attempt: id, version and sequence. */
static struct tr_span write_name(const struct tr_record *record, char *bytes, size_t cap)
{
    struct tr_writer out = tr_writer_on(bytes, cap);
    tr_put_hex(&out, record->head.key.id, 16);
    tr_put_text(&out, "/");
    tr_put_hex(&out, record->head.order.version, 16);
    tr_put_text(&out, "/");
    tr_put_decimal(&out, tr_record_pop(record));
    TR_ASSERT(!out.is_full);
    return (struct tr_span){bytes, out.size};
}

static void put_header(struct tr_writer *out, const char *name, struct tr_span value)
{
    tr_put_text(out, name);
    tr_put_text(out, ": ");
    tr_put_bytes(out, value.text, value.size);
    tr_put_text(out, "\r\n");
}

/* As the binding of CloudEvents to HTTP wants it: what could be taken for something else is
 * percent-encoded, as UTF-8. */
static void put_encoded(struct tr_writer *out, struct tr_span text)
{
    for (size_t i = 0; i < text.size; i++) {
        unsigned char c = (unsigned char)text.text[i];
        if (c > 0x20 && c < 0x7f && c != '"' && c != '%') {
            tr_put_number(out, c, 1);
            continue;
        }
        static const char digits[] = "0123456789ABCDEF";
        tr_put_text(out, "%");
        tr_put_number(out, (uint64_t)digits[c >> 4], 1);
        tr_put_number(out, (uint64_t)digits[c & 15], 1);
    }
}

/* ---- what it belongs to ---- */

static void put_event(struct tr_writer *out, const struct tr_callback_world *world,
                      const struct tr_plan *plan, const struct tr_own *own, struct tr_span name,
                      tr_wall_ms due_ms)
{
    tr_put_text(out, "ce-specversion: 1.0\r\nce-type: ");
    if (plan->ce_type.size > 0)
        tr_put_bytes(out, plan->ce_type.text, plan->ce_type.size);
    else
        tr_put_text(out, CE_TYPE);
    tr_put_text(out, "\r\nce-source: ");
    if (world->config->ce_source[0] != '\0') {
        tr_put_text(out, world->config->ce_source);
    } else {
        tr_put_text(out, "urn:tryst:cluster:");
        tr_put_hex(out, tr_node_roster(world->node)->cluster, 16);
    }
    tr_put_text(out, "\r\n");
    put_header(out, "ce-id", name);
    tr_put_text(out, "ce-time: ");
    tr_put_rfc3339(out, due_ms);
    tr_put_text(out, "\r\n");
    if (own->name.size == 0)
        return;
    tr_put_text(out, "ce-subject: ");
    put_encoded(out, own->name);
    tr_put_text(out, "\r\n");
}

/* The pop is a part of the trace of the request that set its timer. Each pop of a timer that
 * repeats begins a trace of its own, unless the operator wants it otherwise: one would have no
 * end. */
static void put_trace(struct tr_writer *out, const struct tr_callback_world *world,
                      const struct tr_record *record, const struct tr_own *own)
{
    if (own->trace.size == 0)
        return;
    uint64_t high = tr_load((const uint8_t *)own->trace.text, 8);
    uint64_t low = tr_load((const uint8_t *)own->trace.text + 8, 8);
    uint64_t pop = tr_record_pop(record);
    uint64_t span = tr_hash_mix(tr_hash_mix(record->head.key.id ^ record->head.order.version) +
                                pop + ((uint64_t)record->head.order.attempt << 40));
    bool is_own = tr_record_pops(record) > 1 && !world->config->is_trace_kept;
    if (is_own) {
        high = tr_hash_mix(high + pop);
        low = tr_hash_mix(low ^ tr_hash_mix(pop)) | 1;
    }
    tr_put_text(out, "traceparent: 00-");
    tr_put_hex(out, high, 16);
    tr_put_hex(out, low, 16);
    tr_put_text(out, "-");
    tr_put_hex(out, span != 0 ? span : 1, 16);
    tr_put_text(out, "-01\r\n");
    if (own->tracestate.size > 0 && !is_own)
        put_header(out, "tracestate", own->tracestate);
}

static void put_signature(struct tr_writer *out, const struct tr_callback_world *world,
                          const struct tr_uri *uri, struct tr_span name, struct tr_span body)
{
    const struct tr_webhook_keys *keys = tr_config_webhook_keys(world->config, uri->origin);
    if (keys == NULL)
        return;
    uint64_t now_s = world->now_ms / 1000;
    put_header(out, "webhook-id", name);
    tr_put_text(out, "webhook-timestamp: ");
    tr_put_decimal(out, now_s);
    tr_put_text(out, "\r\nwebhook-signature: ");
    tr_webhook_sign(keys, name, now_s, body, out);
    tr_put_text(out, "\r\n");
}

static void put_content(struct tr_writer *out, const struct tr_record *record,
                        const struct tr_plan *plan)
{
    struct tr_span type =
        plan->is_json ? TR_SPAN("application/json") : TR_SPAN("text/plain; charset=utf-8");
    put_header(out, "Content-Type", record->content_type.size > 0 ? record->content_type : type);
    tr_put_text(out, "Content-Length: ");
    tr_put_decimal(out, record->opaque.size);
    tr_put_text(out, "\r\n");
}

void tr_callback_put_request(struct tr_writer *out, const struct tr_callback_world *world,
                             const struct tr_record *record, const struct tr_plan *plan,
                             const struct tr_uri *uri)
{
    char bytes[64];
    struct tr_own own;
    struct tr_timer_text text = tr_node_text(world->node, record->head.key.id, record->head.factor);
    struct tr_span name = write_name(record, bytes, sizeof bytes);
    struct tr_span body = record->opaque;
    tr_own_get(record->own, &own);
    if (plan->method == TR_METHOD_GET) /* it has none */
        body.size = 0;
    tr_put_text(out, tr_method_name(plan->method));
    tr_put_text(out, " ");
    if (uri->target.size == 0 || uri->target.text[0] != '/')
        tr_put_text(out, "/");
    tr_put_bytes(out, uri->target.text, uri->target.size);
    tr_put_text(out, " HTTP/1.1\r\n");
    put_header(out, "Host", uri->authority);
    if (plan->method != TR_METHOD_GET)
        put_content(out, record, plan);
    tr_put_text(out, "X-Sequence-Number: ");
    tr_put_decimal(out, tr_record_pop(record));
    tr_put_text(out, "\r\nX-Timer-ID: ");
    tr_put_timer_text(out, &text);
    tr_put_text(out, "\r\nX-Timer-Version: ");
    tr_put_hex(out, record->head.order.version, 16);
    tr_put_text(out, "\r\n");
    put_event(out, world, plan, &own, name, tr_node_nominal(world->node, record));
    put_trace(out, world, record, &own);
    put_signature(out, world, uri, name, body);
    tr_put_bytes(out, plan->headers.text, plan->headers.size);
    tr_put_text(out, "\r\n");
    tr_put_bytes(out, body.text, body.size);
}
