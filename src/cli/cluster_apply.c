/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tryst cluster apply FILE`: makes the cluster what the file says, in three steps over all nodes:
 * tell them who joins and who leaves; wait until every timer is where it belongs; tell them who is
 * left. Nothing is kept here: interrupted, it is run again, and goes on from what the nodes say.
 */
#include "cli/cluster_survey.h"
#include "cli/plan.h"

#include "proof/proof.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS   200
#define SAY_EVERY 25 /* looks */
#define CALM      2  /* looks in a row that must find all in place */
#define BAR       40
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

enum stage { STAGE_CHECK, STAGE_CHANGE, STAGE_FINAL };

static const char *role_of(const struct tr_apply *apply, const char *address)
{
    return !tr_apply_is_target(apply, address)   ? "leaving"
           : tr_apply_is_staying(apply, address) ? "staying"
                                                 : "joining";
}

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

static bool check_member(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    bool is_joining = strcmp(role_of(apply, member->address), "joining") == 0;
    const char *other = find_other_cluster(apply, member);
    if (other != NULL)
        tr_failure(TR_APPLY_COMMAND,
                   "%s belongs to another cluster, of %s and others; let it leave that one first",
                   member->address, other);
    else if (member->told.is_reached || (apply->is_forced && !is_joining))
        return true;
    else if (is_joining)
        tr_failure(TR_APPLY_COMMAND, "%s shall join and cannot be reached; start it first",
                   member->address);
    else
        tr_failure(TR_APPLY_COMMAND,
                   "%s is down; bring it back first, or go on without it with --force: what it "
                   "alone holds stays there",
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
    struct tr_cluster_settings settings = tr_cluster_defaults(TR_APPLY_COMMAND);
    struct tr_node_list before = {0};
    struct tr_node_list after = {0};
    struct tr_plan plan;
    settings.strategy = "chronos@1";
    for (size_t i = 0; i < apply->members.count; i++) {
        const char *address = apply->members.list[i].address;
        printf("%-32s %s\n", address, role_of(apply, address));
        bool is_new = strcmp(role_of(apply, address), "joining") == 0;
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
        tr_failure(TR_APPLY_COMMAND,
                   "there is no terminal to ask on; --yes goes on without asking");
        return false;
    }
    fputs("\nGo on? [y/N] ", stdout);
    fflush(stdout);
    if (fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y'))
        return true;
    tr_failure(TR_APPLY_COMMAND, "nothing was done");
    return false;
}

/* ---- telling the nodes ---- */

/* The list of nodes: with who joins and leaves, or as it is in the end. A check changes nothing. */
static size_t write_view(const struct tr_apply *apply, enum stage stage, char *text)
{
    bool is_final = stage == STAGE_FINAL;
    size_t size = (size_t)snprintf(text, TR_TARGET_TEXT, "[cluster]\n%s",
                                   stage == STAGE_CHECK ? "check = yes\n" : "");
    for (size_t i = 0; i < apply->members.count; i++) {
        const char *address = apply->members.list[i].address;
        const char *role = role_of(apply, address);
        bool is_node = is_final || strcmp(role, "staying") == 0;
        if (is_final && !tr_apply_is_target(apply, address))
            continue;
        size += (size_t)snprintf(text + size, TR_TARGET_TEXT - size, "%s = %s\n",
                                 is_node ? "node" : role, address);
    }
    return size;
}

static void write_proof(const struct tr_apply *apply, const struct tr_told *told, const char *text,
                        size_t size, char hex[2 * TR_PROOF_SIZE + 1])
{
    uint8_t proof[TR_PROOF_SIZE];
    uint8_t *oath = tr_allocate(TR_TARGET_TEXT + 1024, 1);
    struct tr_writer out = tr_writer_on(oath, TR_TARGET_TEXT + 1024);
    struct tr_span address = {told->node, strlen(told->node)};
    struct tr_span secret = {apply->secret, strlen(apply->secret)};
    tr_greeting_apply_oath(&out, address, strtoull(told->challenge, NULL, 16),
                           (struct tr_span){text, size});
    tr_proof(secret, (struct tr_span){(const char *)oath, out.size}, proof);
    for (unsigned i = 0; i < TR_PROOF_SIZE; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", proof[i]);
    free(oath);
}

static void say_refused(const struct tr_apply *apply, const struct tr_cluster_member *member,
                        const struct tr_reply *reply)
{
    bool is_secret = reply->status == 403 && member->told.has_secret;
    if (is_secret && apply->secret[0] == '\0')
        tr_failure(TR_APPLY_COMMAND,
                   "%s wants the cluster's secret: --secret-file, or TRYST_CLUSTER_SECRET",
                   member->address);
    else if (is_secret)
        tr_failure(TR_APPLY_COMMAND, "%s has another secret than the one that was given",
                   member->address);
    else {
        tr_failure(TR_APPLY_COMMAND, "%s refuses:", member->address);
        tr_reply_refused(TR_APPLY_COMMAND, reply);
    }
}

static bool tell(struct tr_apply *apply, const struct tr_cluster_member *member, const char *text,
                 size_t size, bool *has_answered)
{
    char *request = tr_allocate(TR_TARGET_TEXT + 1024, 1);
    char proof[2 * TR_PROOF_SIZE + 1];
    struct tr_told told;
    struct tr_reply reply;
    bool is_told = false;
    *has_answered = false;
    if (tr_told_ask(TR_APPLY_COMMAND, member->address, true,
                    &told)) { /* its challenge is good once */
        write_proof(apply, &told, text, size, proof);
        int head = snprintf(request, 1024,
                            "PUT /cluster HTTP/1.1\r\nHost: node\r\nConnection: close\r\n"
                            "Tryst-Proof: %s\r\nContent-Length: %zu\r\n\r\n",
                            proof, size);
        memcpy(request + head, text, size);
        if (tr_node_ask(NULL, member->address, request, (size_t)head + size, &reply)) {
            *has_answered = true;
            is_told = reply.status == 200;
            if (!is_told)
                say_refused(apply, member, &reply);
            tr_reply_free(&reply);
        }
        tr_told_free(&told);
    }
    free(request);
    return is_told;
}

/* Those that join, or those that are there. It ends with the first that refuses; with --force, who
 * is down or leaves need not be told. */
static bool tell_some(struct tr_apply *apply, const char *text, size_t size, bool is_joining)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        struct tr_told told;
        if ((strcmp(role_of(apply, member->address), "joining") == 0) != is_joining)
            continue;
        bool has_answered = false;
        bool is_told = tell(apply, member, text, size, &has_answered);
        bool is_needed = member->told.is_reached && tr_apply_is_target(apply, member->address);
        if (!is_told && (!apply->is_forced || is_needed)) {
            if (!has_answered)
                tr_failure(TR_APPLY_COMMAND, "%s does not answer", member->address);
            return false;
        }
        if (is_told && apply->view[0] == '\0' &&
            tr_told_ask(TR_APPLY_COMMAND, member->address, true, &told)) {
            snprintf(apply->view, sizeof apply->view, "%s", told.view);
            tr_told_free(&told);
        }
    }
    return true;
}

/* Those that are there first: who joins is then known to them, and let in. */
static bool tell_all(struct tr_apply *apply, enum stage stage)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = write_view(apply, stage, text);
    apply->view[0] = '\0';
    bool is_told = tell_some(apply, text, size, false) && tell_some(apply, text, size, true);
    free(text);
    return is_told;
}

/* ---- waiting ---- */

struct waiting {
    unsigned looks;
    char said[TR_MEMBER_NAME + 160];
};

static void look_again(struct tr_apply *apply)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        tr_told_free(&member->told);
        tr_told_ask(TR_APPLY_COMMAND, member->address, true, &member->told);
    }
}

/* One that came back with an older list hears of this one again. */
static void tell_again(struct tr_apply *apply, enum stage stage)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = write_view(apply, stage, text);
    bool has_answered = false;
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        if (member->told.is_reached && strcmp(member->told.view, apply->view) != 0)
            tell(apply, member, text, size, &has_answered);
    }
    free(text);
}

static bool sees_all(const struct tr_apply *apply, const struct tr_told *told)
{
    for (size_t i = 0; i < told->seen_count; i++) {
        const struct tr_seen *seen = &told->seen[i];
        const struct tr_cluster_member *member = tr_members_find(&apply->members, seen->address);
        bool is_absent = member == NULL || !member->told.is_reached;
        if (strcmp(seen->role, "gone") == 0 || (is_absent && apply->is_forced))
            continue;
        if (strcmp(seen->state, "up") != 0 || !seen->has_same_view || seen->is_behind)
            return false;
    }
    return true;
}

/* How much of a node's work is done, in per cent; 100: all of it, and it sees the others so too. */
static unsigned done_by(const struct tr_apply *apply, const struct tr_cluster_member *member,
                        bool is_final)
{
    const struct tr_told *told = &member->told;
    bool is_leaving = !tr_apply_is_target(apply, member->address);
    if (!told->is_reached)
        return apply->is_forced || (is_final && is_leaving) ? 100 : 0;
    if (strcmp(told->view, apply->view) != 0)
        return 0;
    if (is_leaving && is_final)
        return told->held == 0 ? 100 : 99;
    bool is_done = strcmp(told->state, "up") == 0 && !told->is_rebalancing &&
                   told->to_rebalance == 0 && told->moving == 0 && sees_all(apply, told) &&
                   (!is_leaving || told->held == 0);
    if (is_done)
        return 100;
    return told->walked < 99 ? (unsigned)told->walked : 99;
}

static void draw_bar(unsigned percent, const char *what)
{
    char bar[BAR + 1];
    for (unsigned i = 0; i < BAR; i++)
        bar[i] = i < percent * BAR / 100 ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r[%s] %3u%%  %-40s", bar, percent, what);
    fflush(stderr);
}

/* Why a node is not done yet. */
static const char *reason_of(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    const struct tr_told *told = &member->told;
    return !told->is_reached ? "is down: bring it back, or end this and --force"
           : strcmp(told->view, apply->view) != 0       ? "has not taken the list yet"
           : strcmp(told->state, "up") != 0             ? "is starting or stopping"
           : told->to_rebalance > 0 || told->moving > 0 ? "has timers to move"
           : !sees_all(apply, told)                     ? "does not hear all others yet"
                                                        : "is about to be done";
}

/* Whom it waits for, and why: where a bar is drawn, if something is to be done about it; else every
 * few seconds. */
static void say_waiting(const struct tr_apply *apply, const struct tr_cluster_member *member,
                        bool is_drawn, struct waiting *waiting)
{
    char text[TR_MEMBER_NAME + 160];
    snprintf(text, sizeof text, "waiting: %s %s (%llu to move, %llu moving)", member->address,
             reason_of(apply, member), (unsigned long long)member->told.to_rebalance,
             (unsigned long long)member->told.moving);
    waiting->looks++;
    bool is_time = !is_drawn && waiting->looks % SAY_EVERY == 0;
    if (!is_time && (member->told.is_reached || strcmp(text, waiting->said) == 0))
        return;
    snprintf(waiting->said, sizeof waiting->said, "%s", text);
    fprintf(stderr, is_drawn ? "\n%s\n" : "%s\n", text);
}

static void wait_until_done(struct tr_apply *apply, enum stage stage, const char *what)
{
    bool is_drawn = isatty(STDERR_FILENO) == 1;
    unsigned calm = 0;
    struct waiting waiting = {0};
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    if (!is_drawn)
        fprintf(stderr, "%s\n", what);
    while (calm < CALM) {
        unsigned sum = 0;
        const struct tr_cluster_member *last = NULL;
        look_again(apply);
        tell_again(apply, stage);
        for (size_t i = 0; i < apply->members.count; i++) {
            unsigned done = done_by(apply, &apply->members.list[i], stage == STAGE_FINAL);
            sum += done;
            if (done < 100 && (last == NULL || !apply->members.list[i].told.is_reached))
                last = &apply->members.list[i];
        }
        calm = last == NULL ? calm + 1 : 0;
        if (last != NULL)
            say_waiting(apply, last, is_drawn, &waiting);
        if (is_drawn)
            draw_bar(sum / (unsigned)(apply->members.count + (apply->members.count == 0)), what);
        if (calm < CALM)
            nanosleep(&pause, NULL);
    }
    if (is_drawn)
        fputc('\n', stderr);
}

/* ---- the three steps ---- */

static bool is_there_already(const struct tr_apply *apply)
{
    const char *view = NULL;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        const struct tr_told *told = &member->told;
        if (strcmp(role_of(apply, member->address), "staying") != 0 || !told->is_reached ||
            (view != NULL && strcmp(view, told->view) != 0) || strcmp(told->role, "staying") != 0)
            return false;
        for (size_t k = 0; k < told->seen_count; k++) {
            const char *role = told->seen[k].role;
            if (strcmp(role, "joining") == 0 || strcmp(role, "leaving") == 0)
                return false;
        }
        view = told->view;
    }
    return apply->members.count == apply->target.count;
}

static void print_end(const struct tr_apply *apply)
{
    size_t down = 0;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        bool is_staying = tr_apply_is_target(apply, member->address);
        down += is_staying && !member->told.is_reached;
        if (is_staying && !member->told.is_reached)
            printf("%s is down and has the old list: run this again when it is back\n",
                   member->address);
        else if (!is_staying)
            printf(member->told.is_reached ? "%s is empty, and may be stopped\n"
                                           : "%s is down; what it alone holds stays there\n",
                   member->address);
    }
    printf("done: %zu nodes, every timer is where it belongs%s\n", apply->target.count,
           down > 0 ? ", but for what the nodes that are down hold" : "");
}

static enum tr_exit change(struct tr_apply *apply)
{
    static const char half[] = "it is half done: run it again and it goes on from here; to go "
                               "back, apply the list that was before";
    if (!tell_all(apply, STAGE_CHANGE))
        return tr_failure(TR_APPLY_COMMAND, half);
    wait_until_done(apply, STAGE_CHANGE, "moving timers to where they belong");
    if (!tell_all(apply, STAGE_FINAL))
        return tr_failure(TR_APPLY_COMMAND, half);
    wait_until_done(apply, STAGE_FINAL, "the new list of nodes is in force");
    print_end(apply);
    return TR_EXIT_OK;
}

static enum tr_exit carry_out(struct tr_apply *apply)
{
    if (!tr_apply_survey(apply))
        return TR_EXIT_FAILED;
    if (is_there_already(apply)) {
        puts("nothing to do: the cluster is as the file says");
        return TR_EXIT_OK;
    }
    if (!check_members(apply))
        return TR_EXIT_FAILED;
    print_plan(apply);
    fflush(stdout);
    if (apply->is_dry)
        return TR_EXIT_OK;
    if (!tell_all(apply, STAGE_CHECK))
        return tr_failure(TR_APPLY_COMMAND, "nothing was done");
    return is_wanted(apply) ? change(apply) : TR_EXIT_FAILED;
}

static enum tr_exit read_options(struct tr_apply *apply, int argc, char **argv)
{
    struct tr_options options = tr_options_start(TR_APPLY_COMMAND, option_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == 0 && apply->target.path != NULL)
            return tr_usage_error(TR_APPLY_COMMAND, "takes one file");
        apply->target.path = options.id == 0 ? options.value : apply->target.path;
        apply->node = options.id == OPTION_NODE ? options.value : apply->node;
        apply->secret_file = options.id == OPTION_SECRET ? options.value : apply->secret_file;
        apply->is_dry |= options.id == OPTION_DRY;
        apply->is_sure |= options.id == OPTION_YES;
        apply->is_forced |= options.id == OPTION_FORCE;
        apply->is_help |= options.id == OPTION_HELP;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (apply->target.path == NULL && !apply->is_help)
        return tr_usage_error(TR_APPLY_COMMAND,
                              "needs a file with the nodes that the cluster shall have");
    return TR_EXIT_OK;
}

enum tr_exit tr_command_cluster_apply(int argc, char **argv)
{
    struct tr_apply apply = {0};
    enum tr_exit status = read_options(&apply, argc, argv);
    if (status == TR_EXIT_OK && apply.is_help)
        tr_help_print(stdout, "cluster");
    else if (status == TR_EXIT_OK && !tr_target_read(TR_APPLY_COMMAND, &apply.target))
        status = TR_EXIT_USAGE;
    else if (status == TR_EXIT_OK)
        status = tr_secret_read(TR_APPLY_COMMAND, apply.secret_file, apply.secret)
                     ? carry_out(&apply)
                     : TR_EXIT_FAILED;
    tr_members_free(&apply.members);
    tr_target_free(&apply.target);
    free(apply.staying);
    return status;
}
