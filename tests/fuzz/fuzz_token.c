/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a line of the file of tokens: what is accepted is within its bounds, and may do
 * something. */
#include "base/assert.h"
#include "wire/token.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_text(const struct tr_token *token, const struct tr_token_text *text)
{
    TR_ASSERT(text->size > 0 && text->at + text->size <= token->text_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct tr_span line = {(const char *)data, size};
    struct tr_token token;
    if (tr_token_parse(line, &token) != NULL)
        return 0;
    TR_ASSERT(token.name[0] != '\0' && strlen(token.name) < TR_TOKEN_NAME);
    TR_ASSERT(token.reads || token.writes);
    TR_ASSERT(token.timers_count <= TR_TOKEN_SCOPES && token.keys_count <= TR_TOKEN_SCOPES);
    TR_ASSERT(token.text_size <= TR_TOKEN_TEXT);
    TR_ASSERT(!token.is_admin || token.timers_count + token.keys_count == 0);
    for (unsigned i = 0; i < token.timers_count; i++)
        check_text(&token, &token.timers[i]);
    for (unsigned i = 0; i < token.keys_count; i++)
        check_text(&token, &token.keys[i]);
    return 0;
}
