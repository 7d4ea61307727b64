/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ini.h"

#include "base/assert.h"

void tr_ini_init(struct tr_ini *ini, struct tr_span text)
{
    *ini = (struct tr_ini){.rest = text};
    if (tr_span_starts(text, TR_SPAN("\xef\xbb\xbf")))
        ini->rest = tr_span_from(text, 3); /* some editors begin a file so */
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct tr_span trim(struct tr_span text)
{
    while (text.size > 0 && is_space(text.text[0]))
        text = tr_span_from(text, 1);
    while (text.size > 0 && is_space(text.text[text.size - 1]))
        text.size--;
    return text;
}

static struct tr_span next_line(struct tr_ini *ini)
{
    TR_ASSERT(ini->rest.size > 0);
    const char *end = memchr(ini->rest.text, '\n', ini->rest.size);
    size_t size = end == NULL ? ini->rest.size : (size_t)(end - ini->rest.text);
    struct tr_span line = {ini->rest.text, size};
    ini->rest = tr_span_from(ini->rest, end == NULL ? size : size + 1);
    ini->line++;
    return trim(line);
}

/* A comment behind a value begins with a space and its sign, so that a URI keeps its ; and #. */
static struct tr_span without_comment(struct tr_span text)
{
    for (size_t i = 1; i < text.size; i++) {
        bool is_sign = text.text[i] == ';' || text.text[i] == '#';
        if (is_sign && is_space(text.text[i - 1])) {
            text.size = i;
            break;
        }
    }
    return trim(text);
}

static enum tr_ini_step bad(struct tr_ini *ini, const char *fault)
{
    TR_ASSERT(fault != NULL && ini->line > 0);
    ini->fault = fault;
    return TR_INI_BAD;
}

enum tr_ini_step tr_ini_next(struct tr_ini *ini)
{
    while (ini->rest.size > 0) {
        struct tr_span line = next_line(ini);
        if (line.size == 0 || line.text[0] == '#' || line.text[0] == ';')
            continue;
        if (memchr(line.text, '\0', line.size) != NULL)
            return bad(ini, "a NUL byte");
        if (line.text[0] == '[') {
            line = without_comment(line);
            if (line.text[line.size - 1] != ']' || line.size == 2)
                return bad(ini, "expected [section]");
            ini->section = trim((struct tr_span){line.text + 1, line.size - 2});
            continue;
        }
        const char *equals = memchr(line.text, '=', line.size);
        if (equals == NULL)
            return bad(ini, "expected key = value");
        size_t at = (size_t)(equals - line.text);
        ini->key = trim((struct tr_span){line.text, at});
        struct tr_span value = tr_span_from(line, at + 1);
        ini->value = without_comment(value);
        if (ini->key.size == 0)
            return bad(ini, "expected a key before =");
        if (ini->section.size == 0)
            return bad(ini, "a key before the first [section]");
        return TR_INI_VALUE;
    }
    return TR_INI_END;
}
