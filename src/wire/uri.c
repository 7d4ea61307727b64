/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/uri.h"

#include "base/assert.h"
#include "base/record.h"

/* Letters, digits and what RFC 3986 lets stand in a URI: all that is printable, but for these. */
static bool is_uri_character(char c)
{
    return c > ' ' && c < 0x7f && c != '"' && c != '<' && c != '>' && c != '\\' && c != '^' &&
           c != '`' && c != '{' && c != '|' && c != '}';
}

static bool is_host_character(char c, bool is_bracketed)
{
    if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.')
        return true;
    return is_bracketed ? c == ':' || c == '%' : c == '-' || c == '_';
}

static const char *read_port(struct tr_span text, struct tr_uri *uri)
{
    uint32_t port = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9' || port > 65535)
            return "has a bad port";
        port = port * 10 + (uint32_t)(text.text[i] - '0');
    }
    if (text.size == 0 || port == 0 || port > 65535)
        return "has a bad port";
    TR_ASSERT(port > 0 && port <= UINT16_MAX);
    uri->port = (uint16_t)port;
    return NULL;
}

static const char *read_authority(struct tr_span text, struct tr_uri *uri)
{
    bool is_bracketed = text.size > 0 && text.text[0] == '[';
    if (memchr(text.text, '@', text.size) != NULL)
        return "must not carry a user name";
    const char *host_end = memchr(text.text, is_bracketed ? ']' : ':', text.size);
    size_t skip = is_bracketed ? 1 : 0;
    size_t end = host_end == NULL ? text.size : (size_t)(host_end - text.text);
    if (is_bracketed && host_end == NULL)
        return "has an address without its closing bracket";
    TR_ASSERT(skip <= end && end + skip <= text.size);
    uri->host = (struct tr_span){text.text + skip, end - skip};
    if (uri->host.size == 0)
        return "has no host";
    if (uri->host.size > 253)
        return "has a host name over 253 bytes";
    for (size_t i = 0; i < uri->host.size; i++) {
        if (!is_host_character(uri->host.text[i], is_bracketed))
            return "has a bad host";
    }
    struct tr_span rest = tr_span_from(text, end + skip);
    if (rest.size == 0)
        return NULL;
    if (rest.text[0] != ':')
        return "has a bad host";
    return read_port(tr_span_from(rest, 1), uri);
}

const char *tr_uri_parse(struct tr_span text, struct tr_uri *uri)
{
    static const struct tr_span http = {"http://", 7};
    static const struct tr_span https = {"https://", 8};
    if (text.size > TR_URI_MAX)
        return "is over 2048 bytes";
    for (size_t i = 0; i < text.size; i++) {
        if (!is_uri_character(text.text[i]))
            return "has a character that no URI may have";
    }
    struct tr_span head = {text.text, text.size < 8 ? text.size : 8};
    uri->is_tls = head.size == 8 && tr_span_equals_nocase(head, https);
    head.size = text.size < 7 ? text.size : 7;
    if (!uri->is_tls && !tr_span_equals_nocase(head, http))
        return "must begin with http:// or https://";
    uri->port = uri->is_tls ? 443 : 80;
    size_t start = uri->is_tls ? 8 : 7;
    size_t end = start;
    while (end < text.size && text.text[end] != '/' && text.text[end] != '?' &&
           text.text[end] != '#')
        end++;
    TR_ASSERT(start <= end && end <= text.size);
    uri->origin = (struct tr_span){text.text, end};
    uri->authority = (struct tr_span){text.text + start, end - start};
    uri->target = tr_span_from(text, end);
    const char *fragment = memchr(uri->target.text, '#', uri->target.size);
    if (fragment != NULL)
        uri->target.size = (size_t)(fragment - uri->target.text);
    return read_authority(uri->authority, uri);
}
