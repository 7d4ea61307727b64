/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/address.h"

#include <netinet/in.h>
#include <string.h>
#include <uv.h>

bool tr_address_parse(const char *host, uint16_t port, struct sockaddr_storage *address)
{
    memset(address, 0, sizeof *address);
    return uv_ip4_addr(host, port, (struct sockaddr_in *)address) == 0 ||
           uv_ip6_addr(host, port, (struct sockaddr_in6 *)address) == 0;
}

void tr_address_set_port(struct sockaddr_storage *address, uint16_t port)
{
    if (address->ss_family == AF_INET6)
        ((struct sockaddr_in6 *)address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)address)->sin_port = htons(port);
}

void tr_address_host(const struct sockaddr_storage *address, uint8_t host[16])
{
    struct sockaddr_in6 ipv6;
    struct sockaddr_in ipv4;
    memcpy(&ipv6, address, sizeof ipv6);
    memcpy(&ipv4, address, sizeof ipv4);
    if (address->ss_family == AF_INET6) {
        memcpy(host, &ipv6.sin6_addr, 16);
        return;
    }
    memset(host, 0, 10);
    memset(host + 10, 0xff, 2);
    memcpy(host + 12, &ipv4.sin_addr, 4);
}

bool tr_address_is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    uint8_t x[16];
    uint8_t y[16];
    tr_address_host(a, x);
    tr_address_host(b, y);
    return memcmp(x, y, sizeof x) == 0;
}

bool tr_address_is_loopback(const struct sockaddr_storage *address)
{
    static const uint8_t ipv6[16] = {[15] = 1};
    static const uint8_t ipv4[13] = {[10] = 0xff, [11] = 0xff, [12] = 127};
    uint8_t host[16];
    tr_address_host(address, host);
    return memcmp(host, ipv6, sizeof ipv6) == 0 || memcmp(host, ipv4, sizeof ipv4) == 0;
}
