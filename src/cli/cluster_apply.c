/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tryst cluster apply`, `join` and `leave`: ask the cluster for a change, and watch it. The
 * cluster carries the change through by itself: interrupted, nothing is lost but the view of it.
 */
#include "cli/cluster_survey.h"
#include "cli/plan.h"

#include "proof/proof.h"
#include "wire/address.h"

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

static const char *role_of(const struct tr_apply *apply, const char *address)
{
    return !tr_apply_is_target(apply, address)   ? "leaving"
           : tr_apply_is_staying(apply, address) ? "staying"
                                                 : "joining";
}

/* The node whose word counts: it has the highest epoch of those that are of the cluster. */
static const struct tr_told *find_word(const struct tr_apply *apply)
{
    const struct tr_told *word = NULL;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        if (told->is_reached && strcmp(told->cluster, apply->cluster) == 0 &&
            (word == NULL || told->epoch > word->epoch))
            word = told;
    }
    return word;
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

/* A node without the secret that the others have, or with one that they have not, would be taken
 * in, and never be spoken with. */
static bool has_other_rule(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    const struct tr_told *word = find_word(apply);
    return member->told.is_reached && !member->is_old && word != NULL &&
           word->has_secret != member->told.has_secret;
}

static bool check_member(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    bool is_joining = strcmp(role_of(apply, member->address), "joining") == 0;
    const char *other = find_other_cluster(apply, member);
    bool is_missed = !member->told.is_reached &&
                     (!apply->is_forced || tr_apply_is_target(apply, member->address));
    struct tr_told told;
    if (is_missed && tr_told_ask(apply->command, member->address, false, &told)) /* says why */
        tr_told_free(&told);
    if (has_other_rule(apply, member))
        tr_failure(apply->command,
                   member->told.has_secret
                       ? "%s has a [cluster] secret-file and the cluster has none: give all of "
                         "them the same, or none"
                       : "%s has no [cluster] secret-file and the cluster has one: give it the "
                         "same first",
                   member->address);
    else if (member->told.is_reached && member->told.cluster[0] == '\0')
        tr_failure(apply->command, "%s is of an older version; update it first", member->address);
    else if (other != NULL)
        tr_failure(apply->command,
                   "%s belongs to another cluster, of %s and others; let it leave that one first",
                   member->address, other);
    else if (member->told.is_reached ||
             (apply->is_forced && !tr_apply_is_target(apply, member->address)))
        return true;
    else if (is_joining)
        tr_failure(apply->command, "%s shall join and cannot be asked; start it first",
                   member->address);
    else
        tr_failure(apply->command,
                   tr_apply_is_target(apply, member->address)
                       ? "%s is down; bring it back first, or leave it out, with --force"
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

/* ---- telling the nodes ---- */

/* A node that is to go is lost if it is down and that was said of it: named to leave, or not in the
 * file, with --force. It is down if nobody who stays hears it, though it may answer here. */
static bool is_lost(const struct tr_apply *apply, const struct tr_cluster_member *member)
{
    bool is_named = apply->verb == TR_VERB_APPLY || tr_apply_is_named(apply, member->address);
    bool is_heard = false;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        if (!told->is_reached || !tr_apply_is_target(apply, apply->members.list[i].address))
            continue;
        for (size_t k = 0; k < told->seen_count; k++)
            is_heard |= strcmp(told->seen[k].address, member->address) == 0 &&
                        strcmp(told->seen[k].state, "down") != 0;
    }
    return apply->is_forced && is_named && !is_heard;
}

/* What is to be changed of a node; NULL: nothing. */
static const char *change_of(const struct tr_apply *apply, const struct tr_told *word,
                             const struct tr_cluster_member *member)
{
    const char *now = word == NULL ? "" : tr_told_role(word, member->address);
    const char *wanted = role_of(apply, member->address);
    if (strcmp(wanted, "leaving") == 0 && is_lost(apply, member))
        wanted = "lost";
    bool is_so = strcmp(wanted, "staying") == 0 || strcmp(wanted, now) == 0 ||
                 (strcmp(wanted, "leaving") == 0 && strcmp(now, "lost") == 0);
    return is_so ? NULL : wanted;
}

/* What differs from the cluster as it was found, and no more: somebody else may have changed the
 * rest since. A check changes nothing. */
static size_t write_change(const struct tr_apply *apply, bool is_check, char *text)
{
    const struct tr_told *word = find_word(apply);
    size_t size =
        (size_t)snprintf(text, TR_TARGET_TEXT, "[cluster]\n%s", is_check ? "check = yes\n" : "");
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        const char *change = change_of(apply, word, member);
        if (change != NULL)
            size += (size_t)snprintf(text + size, TR_TARGET_TEXT - size, "%s = %s\n", change,
                                     member->address);
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
    bool is_secret = reply->status == 403 && tr_reply_says(reply, "must prove");
    if (is_secret && apply->secret[0] == '\0')
        tr_failure(apply->command,
                   "%s wants the cluster's secret: --secret-file, or TRYST_CLUSTER_SECRET",
                   member->address);
    else if (is_secret)
        tr_failure(apply->command, "%s has another secret than the one that was given",
                   member->address);
    else {
        tr_failure(apply->command, "%s refuses:", member->address);
        tr_reply_refused(apply->command, reply);
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
    if (tr_told_ask(apply->command, member->address, true,
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

/* Whether all who are there would heed what this command says: one of them may have another
 * secret. */
static bool check_all(struct tr_apply *apply)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = write_change(apply, true, text);
    bool is_good = true;
    for (size_t i = 0; i < apply->members.count && is_good; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        bool has_answered = false;
        if (!member->told.is_reached)
            continue;
        is_good = tell(apply, member, text, size, &has_answered);
        if (!has_answered)
            tr_failure(apply->command, "%s does not answer", member->address);
    }
    free(text);
    return is_good;
}

/* Any member that stays may be asked; if none does, any. */
static bool ask(struct tr_apply *apply)
{
    char *text = tr_allocate(TR_TARGET_TEXT, 1);
    size_t size = write_change(apply, false, text);
    bool is_told = false;
    bool has_answered = false;
    for (size_t n = 0; n < 2 * apply->members.count && !has_answered; n++) {
        const struct tr_cluster_member *member = &apply->members.list[n % apply->members.count];
        bool is_turn = n >= apply->members.count || tr_apply_is_staying(apply, member->address);
        if (!is_turn || !member->is_old || !member->told.is_reached ||
            strcmp(member->told.role, "gone") == 0)
            continue;
        is_told = tell(apply, member, text, size, &has_answered);
        if (!has_answered)
            tr_failure(apply->command, "%s does not answer", member->address);
    }
    free(text);
    return is_told;
}

/* ---- waiting ---- */

struct waiting {
    unsigned looks;
    char said[2 * TR_MEMBER_NAME + 160];
};

static void look_again(struct tr_apply *apply)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        tr_told_free(&member->told);
        tr_told_ask(apply->command, member->address, true, &member->told);
    }
}

/* How much of a node's work is done, in per cent; 100: all of it. */
static unsigned done_by(const struct tr_told *told)
{
    bool is_done = told->is_reached && strcmp(told->state, "up") == 0 && !told->is_rebalancing &&
                   told->to_rebalance == 0 && told->moving == 0;
    if (is_done || !told->is_reached)
        return is_done ? 100 : 0;
    return told->walked < 99 ? (unsigned)told->walked : 99;
}

static void draw_bar(unsigned percent, const char *what)
{
    char bar[BAR + 1];
    for (unsigned i = 0; i < BAR; i++)
        bar[i] = i < percent * BAR / 100 ? '#' : '.';
    bar[BAR] = '\0';
    fprintf(stderr, "\r[%s] %3u%%  %-56s", bar, percent, what);
    fflush(stderr);
}

/* How much has been moved, of how much, how fast, and how long the rest takes at that rate. */
struct progress {
    uint64_t most; /* that was seen to be left at once */
    uint64_t begun_ms;
};

static uint64_t clock_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint64_t left_to_move(const struct tr_apply *apply)
{
    uint64_t left = 0;
    for (size_t i = 0; i < apply->members.count; i++)
        left += apply->members.list[i].told.to_rebalance + apply->members.list[i].told.moving;
    return left;
}

static void write_progress(const struct tr_apply *apply, struct progress *progress, char *out,
                           size_t size)
{
    uint64_t left = left_to_move(apply);
    uint64_t now = clock_ms();
    if (left > progress->most || progress->most == 0)
        *progress = (struct progress){.most = left, .begun_ms = now};
    uint64_t moved = progress->most - left;
    uint64_t passed_ms = now - progress->begun_ms;
    if (moved == 0 || passed_ms == 0) {
        snprintf(out, size, left > 0 ? "%llu timers to move" : "moving what belongs elsewhere",
                 (unsigned long long)left);
        return;
    }
    double rate = (double)moved * 1000 / (double)passed_ms;
    snprintf(out, size, "%llu of %llu timers moved, %.0f/s, %.0f s left", (unsigned long long)moved,
             (unsigned long long)progress->most, rate, (double)left / rate);
}

static bool all_know(const struct tr_apply *apply, const struct tr_told *word)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        if (told->is_reached && told->epoch != word->epoch &&
            strcmp(told->cluster, apply->cluster) == 0)
            return false;
    }
    return true;
}

/* Whom it waits for: where a bar is drawn, once; else every few seconds. */
static void say_waiting(const struct tr_apply *apply, const struct tr_told *word, bool is_drawn,
                        struct waiting *waiting)
{
    char text[2 * TR_MEMBER_NAME + 160];
    const struct tr_cluster_member *member = tr_members_find(&apply->members, word->waits_for);
    bool is_down = member != NULL && !member->told.is_reached;
    if (is_down)
        snprintf(text, sizeof text,
                 "waiting: %s is down: bring it back, or end this and say that it is lost (tryst "
                 "cluster leave --force)",
                 word->waits_for);
    else if (member == NULL || member->told.to_rebalance == 0)
        snprintf(text, sizeof text, "waiting: %s is not done yet", word->waits_for);
    else
        snprintf(text, sizeof text, "waiting: %s has %llu timers to move", word->waits_for,
                 (unsigned long long)member->told.to_rebalance);
    waiting->looks++;
    bool is_time = !is_drawn && waiting->looks % SAY_EVERY == 0;
    if (word->waits_for[0] == '\0' || (!is_time && (!is_down || strcmp(text, waiting->said) == 0)))
        return;
    snprintf(waiting->said, sizeof waiting->said, "%s", text);
    fprintf(stderr, is_drawn ? "\n%s\n" : "%s\n", text);
}

static unsigned percent_of(const struct tr_apply *apply)
{
    unsigned sum = 0;
    for (size_t i = 0; i < apply->members.count; i++)
        sum += done_by(&apply->members.list[i].told);
    return sum / (unsigned)(apply->members.count + (apply->members.count == 0));
}

/* Until no change is under way, and all who are of the cluster know that. */
static void watch(struct tr_apply *apply)
{
    char what[120];
    struct progress progress = {0};
    bool is_drawn = isatty(STDERR_FILENO) == 1;
    unsigned calm = 0;
    struct waiting waiting = {0};
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    if (!is_drawn)
        fputs("moving timers to where they belong\n", stderr);
    while (calm < CALM) {
        look_again(apply);
        const struct tr_told *word = find_word(apply);
        bool is_over = word != NULL && !word->is_changing && all_know(apply, word);
        calm = is_over ? calm + 1 : 0;
        if (word == NULL && ++waiting.looks % SAY_EVERY == 0)
            fprintf(stderr, "waiting: no node of the cluster answers\n");
        if (word != NULL && word->is_changing)
            say_waiting(apply, word, is_drawn, &waiting);
        write_progress(apply, &progress, what, sizeof what);
        if (is_drawn)
            draw_bar(is_over ? 100 : percent_of(apply), what);
        if (calm < CALM)
            nanosleep(&pause, NULL);
    }
    if (is_drawn)
        fputc('\n', stderr);
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
            printf(!is_lost(apply, member)   ? "%s is empty, and may be stopped\n"
                   : member->told.is_reached ? "%s is lost to the others: stop it\n"
                                             : "%s is down; what it alone held is lost\n",
                   member->address);
    }
    printf("done: %zu nodes, every timer is where it belongs\n", apply->target.count);
}

static enum tr_exit follow(struct tr_apply *apply)
{
    watch(apply);
    const struct tr_told *word = find_word(apply);
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
    const struct tr_told *word = find_word(apply);
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
    if (!check_all(apply))
        return tr_failure(apply->command, "nothing was done");
    if (!is_wanted(apply))
        return TR_EXIT_FAILED;
    if (!ask(apply))
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
