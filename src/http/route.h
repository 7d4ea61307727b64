/* SPDX-License-Identifier: Apache-2.0 */
/* What the readers of a request's path and of its parameters share. */
#ifndef TR_HTTP_ROUTE_H
#define TR_HTTP_ROUTE_H

#include "http/api.h"

void tr_api_refuse(struct tr_api_request *out, unsigned status, const char *detail);

/* Parameters are parted by & or, as the original has it, by ; */
void tr_api_read_query(struct tr_span query, struct tr_api_request *out);

/* A piece of a path, percent-decoded. False: it does not fit or is badly written. */
bool tr_path_decode(struct tr_span text, char *out, size_t cap, size_t *size);

#endif
