/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses of sockets. An IPv4 address counts as the same, however it is written in IPv6. */
#ifndef TR_SHELL_ADDRESS_H
#define TR_SHELL_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* False: `host` is no IP address. */
bool tr_address_parse(const char *host, uint16_t port, struct sockaddr_storage *address);

void tr_address_set_port(struct sockaddr_storage *address, uint16_t port);

bool tr_address_is_same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
bool tr_address_is_loopback(const struct sockaddr_storage *address);

/* The bytes of an IPv6 address, or of an IPv4 one as IPv6 has it. */
void tr_address_host(const struct sockaddr_storage *address, uint8_t host[16]);

#endif
