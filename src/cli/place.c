/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst place`: where keys live, a line each. */
#include "cli/cluster.h"

#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

enum {
    OPTION_IDS = TR_CLUSTER_OPTIONS_END,
    OPTION_POSITIONS,
};

static const struct tr_option option_table[] = {
    TR_CLUSTER_OPTIONS,
    {"--ids", false, OPTION_IDS},
    {"--positions", false, OPTION_POSITIONS},
    {NULL, false, 0},
};

struct request {
    struct tr_cluster_settings settings;
    struct tr_node_list nodes;
    char **keys;
    size_t key_count;
    size_t key_cap;
    bool are_ids;
    bool are_positions;
};

/* Takes a key, which is copied. */
static void add_key(struct request *request, const char *key)
{
    if (request->key_count == request->key_cap) {
        request->key_cap = request->key_cap == 0 ? 64 : 2 * request->key_cap;
        request->keys = tr_reallocate(request->keys, request->key_cap, sizeof *request->keys);
    }
    char *copy = tr_allocate(strlen(key) + 1, 1);
    memcpy(copy, key, strlen(key) + 1);
    request->keys[request->key_count++] = copy;
}

/* Keys from standard input, one a line. */
static bool read_keys(struct request *request)
{
    char *line = NULL;
    size_t cap = 0;
    size_t line_count = 0;
    bool is_text = true;
    for (ssize_t size; is_text && (size = getline(&line, &cap, stdin)) > 0;) {
        if (line[size - 1] == '\n')
            line[--size] = '\0';
        is_text = strlen(line) == (size_t)size;
        add_key(request, line);
        line_count++;
    }
    free(line);
    if (!is_text)
        tr_usage_error("place", "standard input, line %zu: a key has a NUL byte in it", line_count);
    else if (ferror(stdin))
        tr_usage_error("place", "cannot read keys from standard input");
    return is_text && !ferror(stdin);
}

static bool take_option(struct request *request, const struct tr_options *options)
{
    switch (options->id) {
    case 0:
        if (strcmp(options->value, "-") == 0 && !options->operands_only)
            return read_keys(request);
        add_key(request, options->value);
        return true;
    case TR_OPTION_NODE:
        return tr_node_list_add(&request->nodes, &request->settings, options->value);
    case OPTION_IDS:
        request->are_ids = true;
        return true;
    case OPTION_POSITIONS:
        request->are_positions = true;
        return true;
    default:
        return tr_cluster_take(&request->settings, options);
    }
}

/* A tab or line break in a key would make one line look like two. */
static bool check_keys(const struct request *request)
{
    for (size_t i = 0; i < request->key_count && !request->settings.as_json; i++) {
        if (strpbrk(request->keys[i], "\t\n\r") != NULL) {
            tr_usage_error("place", "a key has a tab or a line break in it: use --json");
            return false;
        }
    }
    return true;
}

static bool read_request(struct request *request, int argc, char **argv)
{
    struct tr_options options = tr_options_start("place", option_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (!take_option(request, &options))
            return false;
    }
    if (step == TR_OPTIONS_BAD)
        return false;
    if (request->are_ids && request->are_positions) {
        tr_usage_error("place", "--ids and --positions exclude each other");
        return false;
    }
    return check_keys(request);
}

static bool parse_id(const char *text, uint64_t *id)
{
    size_t size = strspn(text, "0123456789abcdefABCDEF");
    if (size == 0 || size > 16 || text[size] != '\0')
        return false;
    *id = strtoull(text, NULL, 16);
    return true;
}

/* The partition or the point of the circle that a key at this position has. */
static uint64_t point_of(const struct tryst_place_map *map, const struct tr_decimal *position)
{
    uint64_t partitions = tryst_place_partitions(map);
    if (partitions == 0)
        return tr_decimal_fraction(position, (tr_u128)1 << 64);
    if (strcmp(tryst_place_strategy(map), "keyspace@1") == 0)
        return tr_decimal_fraction(position, partitions);
    return tr_decimal_fraction_up(position, partitions) % partitions;
}

static bool key_at_position(const struct request *request, const struct tryst_place_map *map,
                            const char *text, struct tryst_place_key *key)
{
    struct tr_decimal position;
    if (!tr_position_parse(text, strlen(text), &position)) {
        tr_usage_error("place", "key '%s': a position is a number in [0,1), such as .25", text);
        return false;
    }
    enum tryst_place_status status = tryst_place_key_at(map, point_of(map, &position), key);
    if (status != TRYST_PLACE_OK)
        tr_usage_error("place", "--positions: %s (strategy %s)", tryst_place_status_text(status),
                       request->settings.strategy);
    return status == TRYST_PLACE_OK;
}

static bool make_key(const struct request *request, const struct tryst_place_map *map,
                     const char *text, struct tryst_place_key *key)
{
    if (request->are_positions)
        return key_at_position(request, map, text, key);
    if (!request->are_ids) {
        *key = tryst_place_key_of_text(map, text, strlen(text));
        return true;
    }
    uint64_t id;
    if (!parse_id(text, &id)) {
        tr_usage_error("place", "key '%s': an id is 1 to 16 hexadecimal digits, without 0x", text);
        return false;
    }
    *key = tryst_place_key_of_id(map, id);
    return true;
}

static void print_line(const struct request *request, const char *key, const uint32_t *found,
                       size_t count)
{
    fputs(key, stdout);
    for (size_t i = 0; i < count; i++)
        printf("\t%s", request->nodes.nodes[found[i]].name);
    putchar('\n');
}

static void print_json(const struct request *request, const char *key, const uint32_t *found,
                       size_t count, bool is_first)
{
    fputs(is_first ? "\n    {\"key\": " : ",\n    {\"key\": ", stdout);
    tr_json_string(stdout, key, strlen(key));
    fputs(", \"nodes\": [", stdout);
    for (size_t i = 0; i < count; i++) {
        const char *name = request->nodes.nodes[found[i]].name;
        fputs(i == 0 ? "" : ", ", stdout);
        tr_json_string(stdout, name, strlen(name));
    }
    fputs("]}", stdout);
}

static void print_places(const struct request *request, const struct tryst_place_map *map,
                         const struct tryst_place_key *keys)
{
    size_t want = (size_t)request->settings.replicas;
    size_t most = want < request->nodes.count ? want : request->nodes.count;
    uint32_t *found = tr_allocate(most, sizeof *found);
    void *workspace = tr_allocate(tryst_place_workspace_size(map, want) + 1, 1);
    if (request->settings.as_json)
        printf("{\n  \"strategy\": \"%s\",\n  \"replicas\": %zu,\n  \"places\": [",
               tryst_place_strategy(map), want);
    for (size_t i = 0; i < request->key_count; i++) {
        size_t count = tryst_place_lookup(map, keys[i], want, found, workspace);
        if (request->settings.as_json)
            print_json(request, request->keys[i], found, count, i == 0);
        else
            print_line(request, request->keys[i], found, count);
    }
    if (request->settings.as_json)
        fputs("\n  ]\n}\n", stdout);
    free(workspace);
    free(found);
}

/* Every key is checked before the first line is printed. */
static enum tr_exit run(const struct request *request, const struct tryst_place_map *map)
{
    struct tryst_place_key *keys = tr_allocate(request->key_count, sizeof *keys);
    bool are_good = true;
    for (size_t i = 0; are_good && i < request->key_count; i++)
        are_good = make_key(request, map, request->keys[i], &keys[i]);
    if (are_good)
        print_places(request, map, keys);
    free(keys);
    return are_good ? TR_EXIT_OK : TR_EXIT_USAGE;
}

enum tr_exit tr_command_place(int argc, char **argv)
{
    struct request request = {.settings = tr_cluster_defaults("place")};
    enum tr_exit status = TR_EXIT_USAGE;
    struct tryst_place_map *map = NULL;
    if (!read_request(&request, argc, argv)) {
        /* said */
    } else if (request.settings.wants_help) {
        tr_help_print(stdout, "place");
        status = TR_EXIT_OK;
    } else if ((map = tr_cluster_map(&request.settings, &request.nodes)) != NULL) {
        if (request.key_count == 0)
            tr_usage_error("place",
                           "no keys: give at least one, or - to read them from standard input");
        else
            status = run(&request, map);
    }
    free(map);
    for (size_t i = 0; i < request.key_count; i++)
        free(request.keys[i]);
    free(request.keys);
    tr_node_list_fini(&request.nodes);
    return status;
}
