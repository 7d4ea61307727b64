/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/address.h"

#include "base/assert.h"

#include <string.h>

/* Of names and addresses; what else there may be is a slip. */
static bool is_host(struct tr_span text, bool is_bracketed)
{
    for (size_t i = 0; i < text.size; i++) {
        char c = text.text[i];
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
        bool is_mark = c == '.' || c == '-' || c == '_';
        if (!is_letter && !is_mark && !(is_bracketed && (c == ':' || c == '%')))
            return false;
    }
    return text.size > 0;
}

static bool read_port(struct tr_span text, uint16_t *port)
{
    unsigned number = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.text[i] < '0' || text.text[i] > '9' || number > UINT16_MAX)
            return false;
        number = number * 10 + (unsigned)(text.text[i] - '0');
    }
    *port = (uint16_t)number;
    return number > 0 && number <= UINT16_MAX;
}

const char *tr_address_split(struct tr_span name, char host[TR_HOST_MAX], uint16_t *port)
{
    size_t colon = name.size;
    while (colon > 0 && name.text[colon - 1] != ':')
        colon--;
    if (colon == 0 || name.size > TR_NODE_MAX)
        return "a node must be HOST:PORT, of at most 240 bytes";
    struct tr_span own = {name.text, colon - 1};
    bool is_bracketed = own.size >= 2 && own.text[0] == '[' && own.text[own.size - 1] == ']';
    if (is_bracketed)
        own = (struct tr_span){own.text + 1, own.size - 2};
    if (!is_host(own, is_bracketed))
        return "a node must be HOST:PORT, an IPv6 address in brackets";
    if (!read_port((struct tr_span){name.text + colon, name.size - colon}, port))
        return "the port of a node must be 1 to 65535";
    TR_ASSERT(own.size < TR_HOST_MAX);
    memcpy(host, own.text, own.size);
    host[own.size] = '\0';
    return NULL;
}

const char *tr_address_fault(struct tr_span name)
{
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    return tr_address_split(name, host, &port);
}
