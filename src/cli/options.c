/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options.h"

#include <inttypes.h>
#include <string.h>

struct tr_options tr_options_start(const char *command, const struct tr_option *table, int argc,
                                   char **argv)
{
    return (struct tr_options){
        .command = command, .table = table, .argc = argc, .argv = argv, .next = 1};
}

static const struct tr_option *find(const struct tr_options *options, const char *name, size_t size)
{
    for (const struct tr_option *option = options->table; option->name != NULL; option++) {
        if (strlen(option->name) == size && memcmp(option->name, name, size) == 0)
            return option;
    }
    return NULL;
}

static enum tr_options_step read_option(struct tr_options *options, const char *argument)
{
    size_t size = strcspn(argument, "=");
    const struct tr_option *option = find(options, argument, size);
    if (option == NULL) {
        tr_usage_error(
            options->command,
            "no option %.*s; 'tryst %s --help' lists them, and what begins with - but is "
            "none goes after --",
            (int)size, argument, options->command);
        return TR_OPTIONS_BAD;
    }
    bool has_value = argument[size] == '=';
    options->id = option->id;
    options->value = has_value ? argument + size + 1 : NULL;
    if (has_value && !option->takes_value) {
        tr_usage_error(options->command, "%s takes no value", option->name);
        return TR_OPTIONS_BAD;
    }
    if (option->takes_value && !has_value) {
        if (options->next == options->argc) {
            tr_usage_error(options->command, "%s needs a value", option->name);
            return TR_OPTIONS_BAD;
        }
        options->value = options->argv[options->next++];
    }
    return TR_OPTIONS_ONE;
}

enum tr_options_step tr_options_next(struct tr_options *options)
{
    if (!options->operands_only && options->next < options->argc &&
        strcmp(options->argv[options->next], "--") == 0) {
        options->operands_only = true;
        options->next++;
    }
    if (options->next == options->argc)
        return TR_OPTIONS_DONE;
    const char *argument = options->argv[options->next++];
    if (!options->operands_only && argument[0] == '-' && argument[1] != '\0')
        return read_option(options, argument);
    options->id = 0;
    options->value = argument;
    return TR_OPTIONS_ONE;
}

bool tr_option_number(const struct tr_options *options, const char *name, uint64_t least,
                      uint64_t most, uint64_t *number)
{
    uint64_t value = 0;
    size_t digits = strspn(options->value, "0123456789");
    bool is_number = digits > 0 && options->value[digits] == '\0';
    for (size_t i = 0; is_number && i < digits; i++) {
        uint64_t digit = (uint64_t)(options->value[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            is_number = false;
        value = value * 10 + digit;
    }
    if (!is_number || value < least || value > most) {
        tr_usage_error(options->command,
                       "%s must be a whole number from %" PRIu64 " to %" PRIu64 ", not '%s'", name,
                       least, most, options->value);
        return false;
    }
    *number = value;
    return true;
}
