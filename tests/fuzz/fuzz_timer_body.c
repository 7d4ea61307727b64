/* SPDX-License-Identifier: Apache-2.0 */
/* A body of POST /timers: read, or refused with a reason; what was read keeps its promises. */
#include "base/assert.h"
#include "wire/timer_body.h"
#include "wire/uri.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct tr_timer_body body;
    struct tr_problem problem = {0};
    if (size > 0)
        memcpy(copy, data, size);
    const struct tr_timer_limits limits = {.opaque_max = 100, .ignores_unknown = size % 2 == 0};
    if (tr_timer_body_parse(copy, size, &limits, &body, &problem)) {
        struct tr_uri uri;
        TR_ASSERT(tr_uri_parse(body.uri, &uri) == NULL);
        TR_ASSERT(body.interval_ms <= TR_INTERVAL_MAX && body.opaque.size <= 100);
        TR_ASSERT(body.repeat_ms == 0 || body.repeat_ms >= body.interval_ms);
        TR_ASSERT(body.tag_count <= TR_TAGS_MAX && body.factor <= TR_FACTOR_MAX);
    } else {
        TR_ASSERT(problem.status >= 400 && problem.detail[0] != '\0');
        char text[2048];
        struct tr_writer out = tr_writer_on(text, sizeof text);
        tr_put_problem(&out, &problem);
        TR_ASSERT(!out.is_full);
    }
    free(copy);
    return 0;
}
