/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON parser alone: any bytes end in END or BAD, within as many tokens as there are bytes. */
#include "base/assert.h"
#include "wire/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct tr_json json;
    enum tr_json_token token = TR_JSON_NULL;
    if (size > 0)
        memcpy(copy, data, size);
    tr_json_init(&json, copy, size);
    for (size_t i = 0; token != TR_JSON_END && token != TR_JSON_BAD; i++) {
        TR_ASSERT(i <= size + 1);
        token = tr_json_next(&json);
        if (token == TR_JSON_NUMBER) {
            uint64_t value = 0;
            bool is_exact = false;
            tr_json_thousandths(json.text, &value, &is_exact);
            tr_json_whole(json.text, 1000, &value);
        }
        TR_ASSERT(tr_json_offset(&json) <= size);
    }
    TR_ASSERT(tr_json_next(&json) == token);
    free(copy);
    return 0;
}
