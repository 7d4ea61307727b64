/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of requests, or of answers, in two pieces that the first byte chooses; and the routes
 * that the requests take. */
#include "base/assert.h"
#include "http/api.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct tr_http http;
    if (size < 2)
        return 0;
    bool is_request = (data[0] & 1) != 0;
    size_t piece = 1 + data[1];
    data += 2;
    size -= 2;
    char *copy = malloc(size + 1);
    if (size > 0)
        memcpy(copy, data, size);
    if (is_request)
        tr_http_init_request(&http, 200);
    else
        tr_http_init_response(&http, 200);
    size_t start = 0;
    size_t fed = 0;
    while (start + fed < size) {
        size_t end = start + fed + piece < size ? start + fed + piece : size;
        enum tr_http_state state = tr_http_feed(&http, copy + start, fed, end - start);
        if (state == TR_HTTP_BAD) {
            TR_ASSERT(http.fault_status >= 400 && http.fault != NULL);
            break;
        }
        if (state == TR_HTTP_MORE) {
            fed = end - start;
            continue;
        }
        TR_ASSERT(http.used <= end - start && http.body.size <= 200);
        for (int i = 0; i < TR_HTTP_HEADERS; i++) {
            struct tr_span value = tr_http_header(&http, copy + start, (enum tr_http_header)i);
            TR_ASSERT(value.text == NULL || value.text + value.size <= copy + end);
        }
        struct tr_api_request request;
        if (is_request)
            tr_api_route(tr_http_method(&http), tr_http_span(copy + start, http.target), &request);
        start += http.used;
        fed = 0;
        tr_http_next(&http);
    }
    free(copy);
    return 0;
}
