/* SPDX-License-Identifier: Apache-2.0 */
/* A pop as an HTTP request. */
#include "shell/callback/call.h"

void tr_callback_put_request(struct tr_writer *out, const struct tr_node *node,
                             const struct tr_record *record, const struct tr_uri *uri,
                             tr_steady_ms due_ms)
{
    struct tr_timer_text text = tr_node_text(node, record->head.key.id, record->head.factor);
    uint64_t sequence = tr_record_pop(record);
    tr_put_text(out, "POST ");
    if (uri->target.size == 0 || uri->target.text[0] != '/')
        tr_put_text(out, "/");
    tr_put_bytes(out, uri->target.text, uri->target.size);
    tr_put_text(out, " HTTP/1.1\r\nHost: ");
    tr_put_bytes(out, uri->authority.text, uri->authority.size);
    tr_put_text(out, "\r\nContent-Type: ");
    if (record->content_type.size > 0)
        tr_put_bytes(out, record->content_type.text, record->content_type.size);
    else
        tr_put_text(out, "text/plain; charset=utf-8");
    tr_put_text(out, "\r\nContent-Length: ");
    tr_put_decimal(out, record->opaque.size);
    tr_put_text(out, "\r\nX-Sequence-Number: ");
    tr_put_decimal(out, sequence);
    tr_put_text(out, "\r\nX-Timer-ID: ");
    tr_put_timer_text(out, &text);
    tr_put_text(out, "\r\nX-Timer-Version: ");
    tr_put_hex(out, record->head.order.version, 16);
    tr_put_text(out, "\r\nce-specversion: 1.0\r\nce-type: tryst.timer.pop\r\nce-source: /timers\r\n"
                     "ce-id: ");
    tr_put_hex(out, record->head.key.id, 16);
    tr_put_text(out, "/");
    tr_put_hex(out, record->head.order.version, 16);
    tr_put_text(out, "/");
    tr_put_decimal(out, sequence);
    tr_put_text(out, "\r\nce-time: ");
    tr_put_rfc3339(out, tr_node_wall(node, due_ms));
    tr_put_text(out, "\r\n\r\n");
    tr_put_bytes(out, record->opaque.text, record->opaque.size);
}
