/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tryst cluster apply`, `join` and `leave`: ask the cluster for a change, and watch it. The
 * cluster carries the change through by itself: interrupted, nothing is lost but the view of it.
 */
#include "cli/cluster_survey.h"
#include "cli/plan.h"

#include "wire/address.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLAN_KEYS 100000

enum option_id {
    OPTION_NODE = 1,
    OPTION_SECRET,
    OPTION_DRY,
    OPTION_YES,
    OPTION_FORCE,
    OPTION_HELP,
};

static const struct tr_option option_table[] = {
    {"--node", true, OPTION_NODE},
    {"--secret-file", true, OPTION_SECRET},
    {"--dry-run", false, OPTION_DRY},
    {"--yes", false, OPTION_YES},
    {"--force", false, OPTION_FORCE},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

/* Another node of the cluster that one belongs to which is to join this one; NULL: of none. */
static const char *find_other_cluster(const struct tr_apply *apply,
                                      const struct tr_cluster_member *member)
{
    const struct tr_told *told = &member->told;
    for (size_t i = 0; !member->is_old && i < told->seen_count; i++) {
        const struct tr_cluster_member *other =
            tr_members_find(&apply->members, told->seen[i].address);
        if (strcmp(told->seen[i].role, "gone") != 0 && (other == NULL || !other->is_old))
            return told->seen[i].address;
    }
    return NULL;
}

/* A node without the secret that the others have, or with one that they have not, would be taken
 * in, and never be spoken with. */
static bool has_other_rule(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    const struct tr_told *word = tr_apply_find_word(apply);
    return member->told.is_reached && !member->is_old && word != NULL &&
           word->has_secret != member->told.has_secret;
}

static bool check_member(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    bool is_joining = strcmp(tr_apply_role(apply, member->address), "joining") == 0;
    const char *other = find_other_cluster(apply, member);
    bool is_missed = !member->told.is_reached &&
                     (!apply->is_forced || tr_apply_is_target(apply, member->address));
    struct tr_told told;
    if (is_missed && tr_told_ask(apply->command, member->address, false, &told)) /* says why */
        tr_told_free(&told);
    if (member->told.is_reached && member->told.cluster[0] == '\0')
        tr_failure(apply->command, "%s is of an older version; update it first", member->address);
    else if (has_other_rule(apply, member))
        tr_failure(apply->command,
                   member->told.has_secret
                       ? "%s has a [cluster] secret-file and the cluster has none: give all of "
                         "them the same, or none"
                       : "%s has no [cluster] secret-file and the cluster has one: give it the "
                         "same first",
                   member->address);
    else if (other != NULL)
        tr_failure(apply->command,
                   "%s belongs to another cluster, of %s and others; let it leave that one first",
                   member->address, other);
    else if (member->told.is_reached ||
             (apply->is_forced && !tr_apply_is_target(apply, member->address)))
        return true;
    else if (is_joining)
        tr_failure(apply->command, "%s shall join, and has to answer first", member->address);
    else
        tr_failure(apply->command,
                   tr_apply_is_target(apply, member->address)
                       ? "%s is down; bring it back first, or let it leave, too, with --force"
                       : "%s is down; bring it back first, or go on without it with --force: what "
                         "it alone holds is lost then",
                   member->address);
    return false;
}

static bool check_members(const struct tr_apply *apply)
{
    bool is_good = true;
    for (size_t i = 0; i < apply->members.count; i++)
        is_good &= check_member(apply, &apply->members.list[i]);
    return is_good;
}

/* ---- the plan ---- */

static void print_plan(const struct tr_apply *apply)
{
    struct tr_cluster_settings settings = tr_cluster_defaults(apply->command);
    struct tr_node_list before = {0};
    struct tr_node_list after = {0};
    struct tr_plan plan;
    settings.strategy = "chronos@1";
    for (size_t i = 0; i < apply->members.count; i++) {
        const char *address = apply->members.list[i].address;
        printf("%-32s %s\n", address, tr_apply_role(apply, address));
        bool is_new = strcmp(tr_apply_role(apply, address), "joining") == 0;
        if ((!is_new && !tr_node_list_add(&before, &settings, address)) ||
            (tr_apply_is_target(apply, address) && !tr_node_list_add(&after, &settings, address)))
            return;
    }
    putchar('\n');
    struct tryst_place_map *old = before.count > 0 ? tr_cluster_map(&settings, &before) : NULL;
    struct tryst_place_map *new = old != NULL ? tr_cluster_map(&settings, &after) : NULL;
    if (new != NULL) {
        tr_plan_measure(&plan, old, new, (size_t)settings.replicas, PLAN_KEYS, false);
        tr_plan_print_table(&plan, stdout);
        tr_plan_fini(&plan);
    }
    free(old);
    free(new);
    tr_node_list_fini(&before);
    tr_node_list_fini(&after);
}

static bool is_wanted(const struct tr_apply *apply)
{
    char answer[16];
    if (apply->is_sure)
        return true;
    if (isatty(STDIN_FILENO) != 1) {
        tr_failure(apply->command, "there is no terminal to ask on; --yes goes on without asking");
        return false;
    }
    fputs("\nGo on? [y/N] ", stdout);
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return true;
    tr_failure(apply->command, "nothing was done");
    return false;
}

/* ---- all of it ---- */

/* Whether the cluster is as it shall be; or is about to be. */
static bool is_as_wanted(const struct tr_apply *apply, const struct tr_told *word, bool is_final)
{
    size_t count = 0;
    for (size_t i = 0; i < apply->members.count; i++) {
        const char *address = apply->members.list[i].address;
        const char *role = tr_told_role(word, address);
        bool is_in = strcmp(role, "staying") == 0 || (!is_final && strcmp(role, "joining") == 0);
        bool is_out = strcmp(role, "gone") == 0 ||
                      (!is_final && (strcmp(role, "leaving") == 0 || strcmp(role, "lost") == 0));
        if (tr_apply_is_target(apply, address) ? !is_in : !is_out)
            return false;
        count += is_in;
    }
    return count == apply->target.count;
}

static void print_end(const struct tr_apply *apply)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        if (!tr_apply_is_target(apply, member->address))
            printf(!tr_apply_is_lost(apply, member) ? "%s is empty, and may be stopped\n"
                   : member->told.is_reached        ? "%s is lost to the others: stop it\n"
                                                    : "%s is down; what it alone held is lost\n",
                   member->address);
    }
    printf("done: %zu nodes, every timer is where it belongs\n", apply->target.count);
}

static enum tr_exit follow(struct tr_apply *apply)
{
    tr_apply_watch(apply);
    const struct tr_told *word = tr_apply_find_word(apply);
    if (word == NULL || !is_as_wanted(apply, word, true))
        return tr_failure(apply->command,
                          "somebody else has changed the cluster meanwhile: 'tryst cluster status' "
                          "shows it; run this again");
    print_end(apply);
    return TR_EXIT_OK;
}

static enum tr_exit carry_out(struct tr_apply *apply)
{
    if (!tr_apply_survey(apply))
        return TR_EXIT_FAILED;
    const struct tr_told *word = tr_apply_find_word(apply);
    if (word != NULL && is_as_wanted(apply, word, true)) {
        puts("nothing to do: the cluster is as it shall be");
        return TR_EXIT_OK;
    }
    if (word != NULL && is_as_wanted(apply, word, false)) {
        puts("this change is under way already");
        return apply->is_dry ? TR_EXIT_OK : follow(apply);
    }
    if (!check_members(apply))
        return TR_EXIT_FAILED;
    print_plan(apply);
    fflush(stdout);
    if (apply->is_dry)
        return TR_EXIT_OK;
    if (!tr_apply_check_all(apply))
        return tr_failure(apply->command, "nothing was done");
    if (!is_wanted(apply))
        return TR_EXIT_FAILED;
    if (!tr_apply_ask(apply))
        return tr_failure(apply->command, "nothing was done");
    return follow(apply);
}

static enum tr_exit take_word(struct tr_apply *apply, char *word)
{
    struct tr_span address = {word, strlen(word)};
    if (apply->verb == TR_VERB_APPLY && apply->target.path != NULL)
        return tr_usage_error(apply->command, "takes one file");
    if (apply->verb == TR_VERB_APPLY) {
        apply->target.path = word;
        return TR_EXIT_OK;
    }
    const char *fault = tr_address_fault(address);
    if (fault != NULL || address.size >= TR_MEMBER_NAME)
        return tr_usage_error(apply->command, "%s: %s", word,
                              fault != NULL ? fault : "it is too long");
    apply->addresses =
        tr_reallocate(apply->addresses, apply->address_count + 1, sizeof *apply->addresses);
    apply->addresses[apply->address_count++] = word;
    return TR_EXIT_OK;
}

static enum tr_exit read_options(struct tr_apply *apply, int argc, char **argv)
{
    struct tr_options options = tr_options_start(apply->command, option_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        enum tr_exit status =
            options.id == 0 ? take_word(apply, (char *)(uintptr_t)options.value) : TR_EXIT_OK;
        if (status != TR_EXIT_OK)
            return status;
        apply->node = options.id == OPTION_NODE ? options.value : apply->node;
        apply->secret_file = options.id == OPTION_SECRET ? options.value : apply->secret_file;
        apply->is_dry |= options.id == OPTION_DRY;
        apply->is_sure |= options.id == OPTION_YES;
        apply->is_forced |= options.id == OPTION_FORCE;
        apply->is_help |= options.id == OPTION_HELP;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (apply->verb == TR_VERB_APPLY && apply->target.path == NULL && !apply->is_help)
        return tr_usage_error(apply->command,
                              "needs a file with the nodes that the cluster shall have");
    if (apply->verb != TR_VERB_APPLY && apply->address_count == 0 && !apply->is_help)
        return tr_usage_error(apply->command, "needs the HOST:PORT of a node, or of several");
    return TR_EXIT_OK;
}

static enum tr_exit run(struct tr_apply *apply)
{
    bool is_file = apply->verb == TR_VERB_APPLY;
    if (is_file && !tr_target_read(apply->command, &apply->target))
        return TR_EXIT_USAGE;
    if (!tr_secret_read(apply->command, apply->secret_file, apply->secret) ||
        (!is_file && !tr_apply_find_target(apply)))
        return TR_EXIT_FAILED;
    return carry_out(apply);
}

enum tr_exit tr_command_cluster_apply(int argc, char **argv)
{
    struct tr_apply apply = {.verb = TR_VERB_APPLY, .command = "cluster apply"};
    if (strcmp(argv[0], "join") == 0)
        apply = (struct tr_apply){.verb = TR_VERB_JOIN, .command = "cluster join"};
    else if (strcmp(argv[0], "leave") == 0)
        apply = (struct tr_apply){.verb = TR_VERB_LEAVE, .command = "cluster leave"};
    enum tr_exit status = read_options(&apply, argc, argv);
    if (status == TR_EXIT_OK && apply.is_help)
        tr_help_print(stdout, "cluster");
    else if (status == TR_EXIT_OK)
        status = run(&apply);
    tr_members_free(&apply.members);
    tr_target_free(&apply.target);
    free(apply.addresses);
    free(apply.staying);
    return status;
}
