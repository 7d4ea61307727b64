/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/peer/neighbours.h"

#include "shell/address.h"
#include "wire/address.h"

#include <string.h>
#include <sys/socket.h>

static bool is_at(const struct sockaddr_storage *source, struct tr_span address)
{
    struct sockaddr_storage known = {0};
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    return tr_address_split(address, host, &port) == NULL && tr_address_parse(host, 0, &known) &&
           tr_address_is_same_host(source, &known);
}

bool tr_neighbours_are_near(const struct tr_node *node, const struct tr_config *config, int file)
{
    struct sockaddr_storage source = {0};
    socklen_t size = sizeof source;
    if (getpeername(file, (struct sockaddr *)&source, &size) != 0)
        return false;
    bool is_near = tr_address_is_loopback(&source);
    for (uint32_t i = 0; i < tr_node_members(node) && !is_near; i++) {
        struct tr_node_peer peer;
        tr_node_peer(node, (uint16_t)i, &peer);
        is_near = (i == 0 || peer.role != TR_ROLE_NONE) && is_at(&source, peer.address);
    }
    for (uint32_t i = 0; i < config->node_count && !is_near; i++) {
        const char *address = config->nodes[i].address;
        is_near = is_at(&source, (struct tr_span){address, strlen(address)});
    }
    return is_near;
}

/* Of each create: the beginning of a name tells mostly that it is another. */
static bool may_be(struct tr_span host, struct tr_span name)
{
    size_t bracket = name.size > 0 && name.text[0] == '[' ? 1 : 0;
    struct tr_span head = {name.text + bracket, host.size};
    return name.size > host.size + bracket && tr_span_equals_nocase(head, host);
}

bool tr_neighbours_have_uri(const struct tr_node *node, const struct tr_uri *uri)
{
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    if (tr_node_is_alone(node))
        return false;
    for (uint32_t i = 0; i < tr_node_members(node); i++) {
        struct tr_span name = tr_node_member_address(node, (uint16_t)i);
        struct tr_node_peer peer;
        if (!may_be(uri->host, name) || tr_address_split(name, host, &port) != NULL)
            continue;
        tr_node_peer(node, (uint16_t)i, &peer);
        if ((i == 0 || peer.role != TR_ROLE_NONE) && port == uri->port &&
            tr_span_equals_nocase(uri->host, (struct tr_span){host, strlen(host)}))
            return true;
    }
    return false;
}

bool tr_neighbours_have_address(const struct tr_node *node, const struct sockaddr_storage *address,
                                uint16_t port)
{
    struct sockaddr_storage known;
    char host[TR_HOST_MAX];
    uint16_t own = 0;
    for (uint32_t i = 0; !tr_node_is_alone(node) && i < tr_node_members(node); i++) {
        struct tr_node_peer peer;
        tr_node_peer(node, (uint16_t)i, &peer);
        if ((i == 0 || peer.role != TR_ROLE_NONE) &&
            tr_address_split(peer.address, host, &own) == NULL && own == port &&
            tr_address_parse(host, port, &known) && tr_address_is_same_host(&known, address))
            return true;
    }
    return false;
}
