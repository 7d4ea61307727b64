/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/target.h"

#include "wire/address.h"
#include "wire/ini.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECRET_LEAST 8

static bool read_text(const char *command, const char *path, char *text, size_t *size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        tr_failure(command, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    *size = fread(text, 1, TR_TARGET_TEXT, file);
    fclose(file);
    if (*size == TR_TARGET_TEXT)
        tr_failure(command, "%s is too long", path);
    return *size < TR_TARGET_TEXT;
}

bool tr_target_has(const struct tr_target *target, const char *address)
{
    for (size_t i = 0; i < target->count; i++) {
        if (strcmp(target->list[i], address) == 0)
            return true;
    }
    return false;
}

static bool add(const char *command, struct tr_target *target, const struct tr_ini *ini)
{
    const char *fault = tr_address_fault(ini->value);
    if (fault != NULL) {
        tr_usage_error(command, "%s:%u: '%.*s': %s", target->path, ini->line,
                       (int)(ini->value.size < 100 ? ini->value.size : 100), ini->value.text,
                       fault);
        return false;
    }
    target->list = tr_reallocate(target->list, target->count + 1, sizeof *target->list);
    char *to = target->list[target->count];
    memcpy(to, ini->value.text, ini->value.size);
    to[ini->value.size] = '\0';
    if (tr_target_has(target, to)) {
        tr_usage_error(command, "%s:%u: %s is named twice", target->path, ini->line, to);
        return false;
    }
    target->count++;
    return true;
}

static bool is_one_of(struct tr_span key, const char *const *names)
{
    for (; *names != NULL; names++) {
        if (tr_span_equals(key, (struct tr_span){*names, strlen(*names)}))
            return true;
    }
    return false;
}

/* A configuration of a node may be given: of its [cluster] the node lines count. A slip in one of
 * them would take a node away, so nothing else passes there. */
static bool take(const char *command, struct tr_target *target, const struct tr_ini *ini)
{
    static const char *const changes[] = {"joining", "leaving", NULL};
    static const char *const others[] = {"localhost", "secret", "secret-file", NULL};
    if (!tr_span_equals(ini->section, TR_SPAN("cluster")) || is_one_of(ini->key, others))
        return true;
    if (tr_span_equals(ini->key, TR_SPAN("node")))
        return add(command, target, ini);
    if (is_one_of(ini->key, changes))
        tr_usage_error(command,
                       "%s:%u: the file says what the cluster shall be: node lines alone; who "
                       "joins and who leaves is found out",
                       target->path, ini->line);
    else
        tr_usage_error(command, "%s:%u: there is no key '%.*s' in [cluster]; did you mean 'node'?",
                       target->path, ini->line, (int)(ini->key.size < 100 ? ini->key.size : 100),
                       ini->key.text);
    return false;
}

bool tr_target_read(const char *command, struct tr_target *target)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = 0;
    struct tr_ini ini;
    enum tr_ini_step step = TR_INI_END;
    bool is_good = read_text(command, target->path, text, &size);
    tr_ini_init(&ini, (struct tr_span){text, size});
    while (is_good && (step = tr_ini_next(&ini)) == TR_INI_VALUE)
        is_good = take(command, target, &ini);
    if (is_good && step == TR_INI_BAD) {
        tr_usage_error(command, "%s:%u: %s", target->path, ini.line, ini.fault);
        is_good = false;
    }
    free(text);
    if (is_good && target->count == 0) {
        tr_usage_error(command, "%s has no 'node = HOST:PORT' line in [cluster]", target->path);
        is_good = false;
    }
    return is_good;
}

void tr_target_free(struct tr_target *target)
{
    free(target->list);
    *target = (struct tr_target){0};
}

bool tr_secret_read(const char *command, const char *path, char secret[TR_TARGET_SECRET])
{
    const char *from_environment = getenv("TRYST_CLUSTER_SECRET");
    size_t size = 0;
    if (path == NULL) {
        snprintf(secret, TR_TARGET_SECRET, "%s", from_environment == NULL ? "" : from_environment);
        return true;
    }
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    bool is_good = read_text(command, path, text, &size);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    if (is_good && (size < SECRET_LEAST || size >= TR_TARGET_SECRET)) {
        tr_failure(command, "%s holds no secret: a text of %d to %d bytes", path, SECRET_LEAST,
                   TR_TARGET_SECRET - 1);
        is_good = false;
    }
    if (is_good)
        snprintf(secret, TR_TARGET_SECRET, "%.*s", (int)size, text);
    free(text);
    return is_good;
}
