/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst plan`: what adding and removing nodes would move. */
#include "cli/plan.h"

#include "cli/cluster.h"
#include "cli/svg.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEYS_DEFAULT 100000
#define KEYS_MAX     1000000000

enum {
    OPTION_KEYS = TR_CLUSTER_OPTIONS_END,
    OPTION_ADD,
    OPTION_REMOVE,
    OPTION_SVG,
};

static const struct tr_option option_table[] = {
    TR_CLUSTER_OPTIONS,          {"--keys", true, OPTION_KEYS},
    {"--add", true, OPTION_ADD}, {"--remove", true, OPTION_REMOVE},
    {"--svg", true, OPTION_SVG}, {NULL, false, 0},
};

struct request {
    struct tr_cluster_settings settings;
    struct tr_node_list before;
    struct tr_node_list after;
    struct tr_node_list added;
    const char **removed;
    size_t removed_count;
    uint64_t key_count;
    const char *svg_path;
};

static bool take_option(struct request *request, const struct tr_options *options)
{
    switch (options->id) {
    case 0:
        tr_usage_error("plan", "what is '%s'? plan takes options only; --keys N is how many to try",
                       options->value);
        return false;
    case TR_OPTION_NODE:
        return tr_node_list_add(&request->before, &request->settings, options->value);
    case OPTION_ADD:
        return tr_node_list_add(&request->added, &request->settings, options->value);
    case OPTION_KEYS:
        return tr_option_number(options, "--keys", 1, KEYS_MAX, &request->key_count);
    case OPTION_REMOVE:
        request->removed[request->removed_count++] = options->value;
        return true;
    case OPTION_SVG:
        request->svg_path = options->value;
        return true;
    default:
        return tr_cluster_take(&request->settings, options);
    }
}

static bool read_request(struct request *request, int argc, char **argv)
{
    struct tr_options options = tr_options_start("plan", option_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (!take_option(request, &options))
            return false;
    }
    return step != TR_OPTIONS_BAD;
}

static bool is_removed(const struct request *request, const char *name)
{
    for (size_t i = 0; i < request->removed_count; i++) {
        if (strcmp(request->removed[i], name) == 0)
            return true;
    }
    return false;
}

static bool check_removed(const struct request *request)
{
    for (size_t i = 0; i < request->removed_count; i++) {
        bool is_there = false;
        for (size_t node = 0; node < request->before.count && !is_there; node++)
            is_there = strcmp(request->before.nodes[node].name, request->removed[i]) == 0;
        if (!is_there) {
            tr_usage_error("plan", "--remove %s: no node of that name (a name alone is meant)",
                           request->removed[i]);
            return false;
        }
    }
    return true;
}

/* The nodes afterwards: those that stay, then those that are added. One that stays keeps its
 * positions, also those that were chosen for it. */
static void make_after(struct request *request, const struct tryst_place_map *before)
{
    for (size_t i = 0; i < request->before.count; i++) {
        if (is_removed(request, request->before.nodes[i].name))
            continue;
        tr_node_list_copy(&request->after, &request->before, i);
        size_t after = request->after.count - 1;
        const uint32_t *positions = NULL;
        size_t count = tryst_place_node_positions(before, i, &positions);
        if (count == 1) {
            request->after.nodes[after].has_position = 1;
            request->after.nodes[after].position = positions[0];
        } else {
            request->after.given[after] = (struct tryst_place_given){positions, count};
        }
    }
    for (size_t i = 0; i < request->added.count; i++)
        tr_node_list_copy(&request->after, &request->added, i);
}

/* A node that is removed and added again is the same node, changed. */
static void mark_changed(struct tr_plan *plan, const struct request *request)
{
    for (size_t i = 0; i < plan->node_count; i++) {
        if (plan->nodes[i].change == TR_PLAN_STAYS && is_removed(request, plan->nodes[i].name))
            plan->nodes[i].change = TR_PLAN_CHANGES;
    }
}

static enum tr_exit run(struct request *request, const struct tryst_place_map *before,
                        const struct tryst_place_map *after)
{
    /* Opened first: nobody should wait for a plan that cannot be drawn. */
    FILE *svg = request->svg_path == NULL ? NULL : tr_svg_open("plan", request->svg_path);
    if (request->svg_path != NULL && svg == NULL)
        return TR_EXIT_FAILED;
    struct tr_plan plan;
    bool progress = isatty(STDERR_FILENO) == 1;
    tr_plan_measure(&plan, before, after, (size_t)request->settings.replicas, request->key_count,
                    progress);
    mark_changed(&plan, request);
    if (request->settings.as_json)
        tr_plan_print_json(&plan, stdout);
    else
        tr_plan_print_table(&plan, stdout);
    enum tr_exit status = TR_EXIT_OK;
    if (svg != NULL) {
        tr_plan_print_svg(&plan, svg);
        status = tr_svg_close("plan", svg, request->svg_path);
    }
    tr_plan_fini(&plan);
    return status;
}

static enum tr_exit plan(struct request *request)
{
    enum tr_exit status = TR_EXIT_USAGE;
    struct tryst_place_map *before = tr_cluster_map(&request->settings, &request->before);
    if (before != NULL && check_removed(request)) {
        make_after(request, before);
        struct tryst_place_map *after = NULL;
        if (request->after.count == 0)
            tr_usage_error("plan", "no nodes would be left");
        else
            after = tr_cluster_map(&request->settings, &request->after);
        if (after != NULL)
            status = run(request, before, after);
        free(after);
    }
    free(before);
    return status;
}

enum tr_exit tr_command_plan(int argc, char **argv)
{
    struct request request = {.settings = tr_cluster_defaults("plan"), .key_count = KEYS_DEFAULT};
    request.removed = tr_allocate((size_t)argc, sizeof *request.removed);
    enum tr_exit status = TR_EXIT_USAGE;
    if (read_request(&request, argc, argv)) {
        if (request.settings.wants_help) {
            tr_help_print(stdout, "plan");
            status = TR_EXIT_OK;
        } else {
            status = plan(&request);
        }
    }
    free(request.removed);
    tr_node_list_fini(&request.before);
    tr_node_list_fini(&request.after);
    tr_node_list_fini(&request.added);
    return status;
}
