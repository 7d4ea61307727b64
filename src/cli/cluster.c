/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster.h"

#include <stdlib.h>
#include <string.h>

#define REPLICAS_MAX TRYST_PLACE_NODES_MAX
#define PER_NODE_MAX 4096

struct tr_cluster_settings tr_cluster_defaults(const char *command)
{
    return (struct tr_cluster_settings){
        .command = command, .strategy = "rendezvous", .replicas = 2};
}

bool tr_cluster_take(struct tr_cluster_settings *settings, const struct tr_options *options)
{
    switch (options->id) {
    case TR_OPTION_STRATEGY:
        settings->strategy = options->value;
        return true;
    case TR_OPTION_REPLICAS:
        return tr_option_number(options, "--replicas", 1, REPLICAS_MAX, &settings->replicas);
    case TR_OPTION_LEVELS:
        settings->levels = options->value;
        return true;
    case TR_OPTION_SPREAD:
        settings->spread = options->value;
        return true;
    case TR_OPTION_PARTITIONS:
        return tr_option_number(options, "--partitions", 1, TRYST_PLACE_PARTITIONS_MAX,
                                &settings->partitions);
    case TR_OPTION_PER_NODE:
        return tr_option_number(options, "--per-node", 1, PER_NODE_MAX, &settings->per_node);
    case TR_OPTION_JSON:
        settings->as_json = true;
        return true;
    case TR_OPTION_HELP:
        settings->wants_help = true;
        return true;
    }
    return false;
}

uint64_t tr_cluster_partitions(const struct tr_cluster_settings *settings)
{
    return settings->partitions == 0 ? TRYST_PLACE_PARTITIONS_DEFAULT : settings->partitions;
}

static void grow(struct tr_node_list *list)
{
    if (list->count < list->cap)
        return;
    list->cap = list->cap == 0 ? 16 : 2 * list->cap;
    list->specs = tr_reallocate(list->specs, list->cap, sizeof *list->specs);
    list->nodes = tr_reallocate(list->nodes, list->cap, sizeof *list->nodes);
    list->given = tr_reallocate(list->given, list->cap, sizeof *list->given);
}

static char *copy_span(struct tr_span span)
{
    if (span.text == NULL)
        return NULL;
    char *copy = tr_allocate(span.size + 1, 1);
    memcpy(copy, span.text, span.size);
    copy[span.size] = '\0';
    return copy;
}

static void append(struct tr_node_list *list, const struct tr_node_spec *spec,
                   struct tryst_place_node node)
{
    grow(list);
    node.name = copy_span(spec->name);
    node.zone = copy_span(spec->zone);
    list->specs[list->count] = *spec;
    list->given[list->count] = (struct tryst_place_given){.count = 0};
    list->nodes[list->count++] = node;
}

bool tr_node_list_add(struct tr_node_list *list, const struct tr_cluster_settings *settings,
                      const char *text)
{
    struct tr_node_spec spec;
    enum tr_node_spec_status status = tr_node_spec_parse(text, strlen(text), &spec);
    if (status != TR_NODE_SPEC_OK) {
        tr_usage_error(settings->command, "node '%s': %s", text, tr_node_spec_status_text(status));
        return false;
    }
    append(list, &spec,
           (struct tryst_place_node){.weight = spec.weight, .has_position = spec.has_position});
    return true;
}

void tr_node_list_copy(struct tr_node_list *list, const struct tr_node_list *from, size_t index)
{
    append(list, &from->specs[index], from->nodes[index]);
}

void tr_node_list_fini(struct tr_node_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free((char *)(uintptr_t)list->nodes[i].name);
        free((char *)(uintptr_t)list->nodes[i].zone);
    }
    free(list->specs);
    free(list->nodes);
    free(list->given);
    *list = (struct tr_node_list){.count = 0};
}

/* Is this the strategy, with a version or without? */
static bool is_strategy(const struct tr_cluster_settings *settings, const char *name)
{
    size_t size = strlen(name);
    return strncmp(settings->strategy, name, size) == 0 &&
           (settings->strategy[size] == '\0' || settings->strategy[size] == '@');
}

static bool is_first_keyspace(const struct tr_cluster_settings *settings)
{
    return strcmp(settings->strategy, "keyspace@1") == 0;
}

/* An option that one strategy alone has use for: false if it is given to another, and said so. */
static bool check_use(const struct tr_cluster_settings *settings, const char *option, bool is_given,
                      const char *strategy)
{
    if (!is_given || is_strategy(settings, strategy))
        return true;
    tr_usage_error(settings->command, "%s is for --strategy %s, not for %s", option, strategy,
                   settings->strategy);
    return false;
}

static bool check_uses(const struct tr_cluster_settings *settings)
{
    return check_use(settings, "--levels", settings->levels != NULL, "crush") &&
           check_use(settings, "--spread", settings->spread != NULL, "crush") &&
           check_use(settings, "--partitions", settings->partitions != 0, "keyspace") &&
           check_use(settings, "--per-node", settings->per_node != 0,
                     is_first_keyspace(settings) ? "keyspace@2" : "keyspace");
}

/* Levels of a path of names with `separator` between them. */
static size_t count_levels(const char *path, char separator)
{
    size_t levels = 1;
    for (; *path != '\0'; path++)
        levels += *path == separator;
    return levels;
}

/* Every zone has one name for each level that --levels names. */
static bool check_levels(const struct tr_cluster_settings *settings,
                         const struct tr_node_list *list)
{
    if (settings->levels == NULL)
        return true;
    size_t levels = count_levels(settings->levels, ',');
    for (size_t i = 0; i < list->count; i++) {
        size_t depth = list->nodes[i].zone == NULL ? 0 : count_levels(list->nodes[i].zone, '/');
        if (depth == levels)
            continue;
        tr_usage_error(settings->command,
                       "node '%s': its zone has %zu level%s, --levels names %zu (%s)",
                       list->nodes[i].name, depth, depth == 1 ? "" : "s", levels, settings->levels);
        return false;
    }
    return true;
}

/* The number of the level that --spread names: by its name in --levels, or by its number. */
static bool find_spread(const struct tr_cluster_settings *settings, uint32_t *spread)
{
    *spread = 0;
    if (settings->spread == NULL)
        return true;
    size_t size = strlen(settings->spread);
    uint32_t level = 1;
    for (const char *at = settings->levels; at != NULL && *at != '\0' && size > 0; level++) {
        size_t here = strcspn(at, ",");
        if (here == size && memcmp(at, settings->spread, size) == 0) {
            *spread = level;
            return true;
        }
        at += here + (at[here] == ',');
    }
    if (size == 1 && settings->spread[0] >= '1' && settings->spread[0] <= '8') {
        *spread = (uint32_t)(settings->spread[0] - '0');
        return true;
    }
    tr_usage_error(settings->command, "--spread %s: no such level; %s%s", settings->spread,
                   settings->levels == NULL ? "name them with --levels" : "the levels are ",
                   settings->levels == NULL ? "" : settings->levels);
    return false;
}

static void say_strategies(const struct tr_cluster_settings *settings, const char *what)
{
    char names[256] = "";
    size_t size = 0;
    for (size_t i = 0; tryst_place_strategy_name(i) != NULL; i++) {
        int more = snprintf(names + size, sizeof names - size, "%s%s", i == 0 ? "" : ", ",
                            tryst_place_strategy_name(i));
        size += more < 0 || (size_t)more >= sizeof names - size ? 0 : (size_t)more;
    }
    tr_usage_error(settings->command, "--strategy %s: %s; there are %s", settings->strategy, what,
                   names);
}

/* The way out of a fault, where there is one to tell. */
static const char *way_out(enum tryst_place_status status)
{
    switch ((int)status) {
    case TRYST_PLACE_DUPLICATE_NAME:
        return "; to change a node in a plan, --remove it as well";
    case TRYST_PLACE_WEIGHT_UNUSED:
        return ": weights are for rendezvous, carp, virtual, skeleton, crush and ring";
    case TRYST_PLACE_ZONE_UNUSED:
        return ": zones are for crush";
    case TRYST_PLACE_POSITION_UNUSED:
        return ": positions are for keyspace";
    case TRYST_PLACE_POSITION_TAKEN:
        return "; more --partitions make room";
    case TRYST_PLACE_NO_POSITION_LEFT:
        return "; more --partitions make room, or a smaller --per-node";
    default:
        return "";
    }
}

/* The line for a map that could not be built. */
static void say_fault(const struct tr_cluster_settings *settings, const struct tr_node_list *list,
                      enum tryst_place_status status, size_t fault)
{
    const char *what = tryst_place_status_text(status);
    if (status == TRYST_PLACE_UNKNOWN_STRATEGY || status == TRYST_PLACE_UNKNOWN_VERSION)
        say_strategies(settings, what);
    else if (status == TRYST_PLACE_NO_NODES)
        tr_usage_error(settings->command, "no nodes: give at least one --node NAME");
    else if (fault < list->count)
        tr_usage_error(settings->command, "node '%s': %s%s", list->nodes[fault].name, what,
                       way_out(status));
    else
        tr_usage_error(settings->command, "%s%s", what, way_out(status));
}

/* Positions on the command line are fractions of the circle; the library wants partitions. */
static void find_positions(const struct tr_cluster_settings *settings, struct tr_node_list *list)
{
    uint64_t partitions = tr_cluster_partitions(settings);
    for (size_t i = 0; i < list->count; i++) {
        const struct tr_decimal *position = &list->specs[i].position;
        if (!list->specs[i].has_position)
            continue;
        list->nodes[i].position =
            (uint32_t)(is_first_keyspace(settings)
                           ? tr_decimal_fraction(position, partitions)
                           : tr_decimal_fraction_up(position, partitions) % partitions);
    }
}

static bool has_given(const struct tr_node_list *list)
{
    bool has = false;
    for (size_t i = 0; i < list->count; i++)
        has |= list->given[i].count > 0;
    return has;
}

struct tryst_place_map *tr_cluster_map(const struct tr_cluster_settings *settings,
                                       struct tr_node_list *list)
{
    struct tryst_place_config config = {.strategy = settings->strategy,
                                        .partitions = settings->partitions};
    if (!check_uses(settings) || !check_levels(settings, list) ||
        !find_spread(settings, &config.spread))
        return NULL;
    find_positions(settings, list);
    const struct tryst_place_positions several = {list->given, (uint32_t)settings->per_node};
    const struct tryst_place_positions *positions =
        has_given(list) || settings->per_node != 0 ? &several : NULL;
    size_t size = tryst_place_keyspace_size(&config, positions, list->nodes, list->count);
    struct tryst_place_map *map = tr_allocate(size, 1);
    size_t fault = list->count;
    enum tryst_place_status status =
        tryst_place_keyspace_init(map, size, &config, positions, list->nodes, list->count, &fault);
    if (status == TRYST_PLACE_OK)
        return map;
    say_fault(settings, list, status, fault);
    free(map);
    return NULL;
}
