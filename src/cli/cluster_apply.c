/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tryst cluster apply FILE`: makes the cluster what the file says, in three steps over all nodes:
 * tell them who joins and who leaves; wait until every timer is where it belongs; tell them who is
 * left. Nothing is kept here: interrupted, it is run again, and goes on from what the nodes say.
 */
#include "cli/cluster.h"
#include "cli/members.h"
#include "cli/plan.h"

#include "proof/proof.h"
#include "wire/ini.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND    "cluster apply"
#define TEXT_MAX   131072
#define LOOK_MS    200
#define CALM       2 /* looks in a row that must find all in place */
#define BAR        40
#define PLAN_KEYS  100000
#define SECRET_MAX 1024

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

struct apply {
    const char *path;
    const char *node;
    const char *secret_file;
    bool is_dry;
    bool is_sure;
    bool is_forced;
    bool is_help;
    char secret[SECRET_MAX];
    char (*target)[TR_MEMBER_NAME];
    size_t target_count;
    struct tr_cluster_members members; /* old and new */
    char (*staying)[TR_MEMBER_NAME];   /* of the target, those that are there already */
    size_t staying_count;
    char view[20]; /* that all should have, once one has said it */
};

static bool is_among(char (*list)[TR_MEMBER_NAME], size_t count, const char *address)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(list[i], address) == 0)
            return true;
    }
    return false;
}

static bool is_target(const struct apply *apply, const char *address)
{
    return is_among(apply->target, apply->target_count, address);
}

static bool is_staying(const struct apply *apply, const char *address)
{
    return is_among(apply->staying, apply->staying_count, address);
}

/* ---- what is asked for ---- */

static bool read_text(const char *path, char *text, size_t *size)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        tr_failure(COMMAND, "cannot read %s: %s", path, strerror(errno));
        return false;
    }
    *size = fread(text, 1, TEXT_MAX, file);
    fclose(file);
    return true;
}

static bool add_target(struct apply *apply, unsigned line, struct tr_span address)
{
    if (address.size == 0 || address.size >= TR_MEMBER_NAME ||
        memchr(address.text, ':', address.size) == NULL) {
        tr_usage_error(COMMAND, "%s:%u: a node must be HOST:PORT", apply->path, line);
        return false;
    }
    apply->target = tr_reallocate(apply->target, apply->target_count + 1, sizeof *apply->target);
    char *to = apply->target[apply->target_count];
    memcpy(to, address.text, address.size);
    to[address.size] = '\0';
    if (is_target(apply, to)) {
        tr_usage_error(COMMAND, "%s:%u: %s is named twice", apply->path, line, to);
        return false;
    }
    apply->target_count++;
    return true;
}

static bool read_target(struct apply *apply)
{
    char *text = tr_allocate(TEXT_MAX, 1);
    size_t size = 0;
    struct tr_ini ini;
    enum tr_ini_step step = TR_INI_END;
    bool is_good = read_text(apply->path, text, &size);
    tr_ini_init(&ini, (struct tr_span){text, size});
    while (is_good && (step = tr_ini_next(&ini)) == TR_INI_VALUE) {
        bool is_cluster = tr_span_equals(ini.section, TR_SPAN("cluster"));
        bool is_change = tr_span_equals(ini.key, TR_SPAN("joining")) ||
                         tr_span_equals(ini.key, TR_SPAN("leaving"));
        if (is_cluster && tr_span_equals(ini.key, TR_SPAN("node"))) {
            is_good = add_target(apply, ini.line, ini.value);
        } else if (is_cluster && is_change) {
            tr_usage_error(COMMAND,
                           "%s:%u: the file says what the cluster shall be: node lines alone; who "
                           "joins and who leaves is found out",
                           apply->path, ini.line);
            is_good = false;
        }
    }
    if (is_good && step == TR_INI_BAD) {
        tr_usage_error(COMMAND, "%s:%u: %s", apply->path, ini.line, ini.fault);
        is_good = false;
    }
    free(text);
    if (is_good && apply->target_count == 0) {
        tr_usage_error(COMMAND, "%s has no 'node = HOST:PORT' line in [cluster]", apply->path);
        is_good = false;
    }
    return is_good;
}

static bool read_secret(struct apply *apply)
{
    const char *from_environment = getenv("TRYST_CLUSTER_SECRET");
    size_t size = 0;
    if (apply->secret_file == NULL) {
        snprintf(apply->secret, sizeof apply->secret, "%s",
                 from_environment == NULL ? "" : from_environment);
        return true;
    }
    char *text = tr_allocate(TEXT_MAX, 1);
    bool is_good = read_text(apply->secret_file, text, &size);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    if (is_good)
        snprintf(apply->secret, sizeof apply->secret, "%.*s", (int)size, text);
    free(text);
    return is_good;
}

/* ---- what there is ---- */

/* The node that speaks for the cluster as it is: the one named, or the first of the file that knows
 * others, or the first that answers. */
static bool find_contact(const struct apply *apply, char contact[TR_MEMBER_NAME])
{
    const char *from_environment = getenv("TRYST_NODE");
    const char *named = apply->node != NULL ? apply->node : from_environment;
    contact[0] = '\0';
    if (named != NULL && named[0] != '\0') {
        snprintf(contact, TR_MEMBER_NAME, "%s", named);
        return true;
    }
    for (size_t i = 0; i < apply->target_count; i++) {
        struct tr_told told;
        if (!tr_told_ask(COMMAND, apply->target[i], true, &told))
            continue;
        bool knows_others = told.seen_count > 0;
        tr_told_free(&told);
        if (contact[0] == '\0' || knows_others)
            snprintf(contact, TR_MEMBER_NAME, "%s", apply->target[i]);
        if (knows_others)
            return true;
    }
    if (contact[0] == '\0')
        tr_failure(COMMAND, "no node of %s can be reached; --node names one of the cluster",
                   apply->path);
    return contact[0] != '\0';
}

static void note_staying(struct apply *apply, const char *address)
{
    if (!is_target(apply, address) || is_staying(apply, address))
        return;
    apply->staying =
        tr_reallocate(apply->staying, apply->staying_count + 1, sizeof *apply->staying);
    snprintf(apply->staying[apply->staying_count++], TR_MEMBER_NAME, "%s", address);
}

/* Old nodes are those that the contact and its peers name; of the target, those stay that one of
 * them calls staying. */
static bool survey(struct apply *apply)
{
    char contact[TR_MEMBER_NAME];
    if (!find_contact(apply, contact) || !tr_members_ask(COMMAND, contact, &apply->members))
        return false;
    size_t old = apply->members.count;
    char(*names)[TR_MEMBER_NAME] = NULL;
    size_t count = 0;
    for (size_t i = 0; i < old; i++) {
        const struct tr_told *told = &apply->members.list[i].told;
        if (told->is_reached && strcmp(told->role, "staying") == 0)
            note_staying(apply, told->node);
        for (size_t k = 0; k < told->seen_count; k++) {
            const struct tr_seen *seen = &told->seen[k];
            if (strcmp(seen->role, "staying") == 0)
                note_staying(apply, seen->address);
            names = tr_reallocate(names, count + 1, sizeof *names);
            snprintf(names[count++], TR_MEMBER_NAME, "%s",
                     strcmp(seen->role, "gone") == 0 ? apply->target[0] : seen->address);
        }
    }
    for (size_t i = 0; i < count + apply->target_count; i++) {
        const char *name = i < count ? names[i] : apply->target[i - count];
        if (tr_members_find(&apply->members, name) == NULL) {
            struct tr_cluster_member *member = tr_members_add(&apply->members, name);
            tr_told_ask(COMMAND, member->address, true, &member->told);
        }
    }
    free(names);
    return true;
}

static const char *role_of(const struct apply *apply, const char *address)
{
    return !is_target(apply, address)   ? "leaving"
           : is_staying(apply, address) ? "staying"
                                        : "joining";
}

static bool check_reached(const struct apply *apply)
{
    bool is_good = true;
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        bool is_joining = strcmp(role_of(apply, member->address), "joining") == 0;
        if (member->told.is_reached || (apply->is_forced && !is_joining))
            continue;
        is_good = false;
        if (is_joining)
            tr_failure(COMMAND, "%s shall join and cannot be reached; start it first",
                       member->address);
        else
            tr_failure(COMMAND,
                       "%s is down; bring it back first, or go on without it with --force: what it "
                       "alone holds stays there",
                       member->address);
    }
    return is_good;
}

/* ---- the plan ---- */

static void print_plan(const struct apply *apply)
{
    struct tr_cluster_settings settings = tr_cluster_defaults(COMMAND);
    struct tr_node_list before = {0};
    struct tr_node_list after = {0};
    struct tr_plan plan;
    settings.strategy = "chronos@1";
    for (size_t i = 0; i < apply->members.count; i++) {
        const char *address = apply->members.list[i].address;
        printf("%-32s %s\n", address, role_of(apply, address));
        bool is_new = strcmp(role_of(apply, address), "joining") == 0;
        if ((!is_new && !tr_node_list_add(&before, &settings, address)) ||
            (is_target(apply, address) && !tr_node_list_add(&after, &settings, address)))
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

static bool is_wanted(const struct apply *apply)
{
    char answer[16];
    if (apply->is_sure || isatty(STDIN_FILENO) != 1)
        return true;
    fputs("\nGo on? [y/N] ", stdout);
    fflush(stdout);
    return fgets(answer, sizeof answer, stdin) != NULL && (answer[0] == 'y' || answer[0] == 'Y');
}

/* ---- telling the nodes ---- */

/* The list of nodes: with who joins and leaves, or as it is in the end. */
static size_t write_view(const struct apply *apply, bool is_final, char *text)
{
    size_t size = (size_t)snprintf(text, TEXT_MAX, "[cluster]\n");
    for (size_t i = 0; i < apply->members.count; i++) {
        const char *address = apply->members.list[i].address;
        const char *role = role_of(apply, address);
        bool is_node = is_final || strcmp(role, "staying") == 0;
        if (is_final && !is_target(apply, address))
            continue;
        size += (size_t)snprintf(text + size, TEXT_MAX - size, "%s = %s\n", is_node ? "node" : role,
                                 address);
    }
    return size;
}

static void write_proof(const struct apply *apply, const struct tr_told *told, const char *text,
                        size_t size, char hex[2 * TR_PROOF_SIZE + 1])
{
    uint8_t proof[TR_PROOF_SIZE];
    uint8_t *oath = tr_allocate(TEXT_MAX + 1024, 1);
    struct tr_writer out = tr_writer_on(oath, TEXT_MAX + 1024);
    struct tr_span address = {told->node, strlen(told->node)};
    struct tr_span secret = {apply->secret, strlen(apply->secret)};
    tr_greeting_apply_oath(&out, address, strtoull(told->challenge, NULL, 16),
                           (struct tr_span){text, size});
    tr_proof(secret, (struct tr_span){(const char *)oath, out.size}, proof);
    for (unsigned i = 0; i < TR_PROOF_SIZE; i++)
        snprintf(hex + (size_t)2 * i, 3, "%02x", proof[i]);
    free(oath);
}

static bool tell(struct apply *apply, const struct tr_cluster_member *member, const char *text,
                 size_t size)
{
    char *request = tr_allocate(TEXT_MAX + 1024, 1);
    char proof[2 * TR_PROOF_SIZE + 1];
    struct tr_told told;
    struct tr_reply reply;
    bool is_told = false;
    if (tr_told_ask(COMMAND, member->address, true, &told)) { /* its challenge is good once */
        write_proof(apply, &told, text, size, proof);
        int head = snprintf(request, 1024,
                            "PUT /cluster HTTP/1.1\r\nHost: node\r\nConnection: close\r\n"
                            "Tryst-Proof: %s\r\nContent-Length: %zu\r\n\r\n",
                            proof, size);
        memcpy(request + head, text, size);
        if (tr_node_ask(NULL, member->address, request, (size_t)head + size, &reply)) {
            is_told = reply.status == 200;
            if (!is_told)
                tr_reply_refused(COMMAND, &reply);
            tr_reply_free(&reply);
        }
        tr_told_free(&told);
    }
    free(request);
    return is_told;
}

/* True: all that are to be told have been, or were before. */
static bool tell_all(struct apply *apply, bool is_final)
{
    char *text = tr_allocate(TEXT_MAX, 1);
    size_t size = write_view(apply, is_final, text);
    bool is_told = true;
    apply->view[0] = '\0';
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        struct tr_told told;
        if (!tell(apply, member, text, size)) {
            is_told &= apply->is_forced && !member->told.is_reached;
            continue;
        }
        if (apply->view[0] == '\0' && tr_told_ask(COMMAND, member->address, true, &told)) {
            snprintf(apply->view, sizeof apply->view, "%s", told.view);
            tr_told_free(&told);
        }
    }
    free(text);
    return is_told;
}

/* ---- waiting ---- */

static void look_again(struct apply *apply)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        tr_told_free(&member->told);
        tr_told_ask(COMMAND, member->address, true, &member->told);
    }
}

/* One that came back with an older list hears of this one again. */
static void tell_again(struct apply *apply, bool is_final)
{
    char *text = tr_allocate(TEXT_MAX, 1);
    size_t size = write_view(apply, is_final, text);
    for (size_t i = 0; i < apply->members.count; i++) {
        struct tr_cluster_member *member = &apply->members.list[i];
        if (member->told.is_reached && strcmp(member->told.view, apply->view) != 0)
            tell(apply, member, text, size);
    }
    free(text);
}

static bool sees_all(const struct apply *apply, const struct tr_told *told)
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
static unsigned done_by(const struct apply *apply, const struct tr_cluster_member *member,
                        bool is_final)
{
    const struct tr_told *told = &member->told;
    bool is_leaving = !is_target(apply, member->address);
    if (!told->is_reached)
        return apply->is_forced || (is_final && is_leaving) ? 100 : 0;
    if (strcmp(told->view, apply->view) != 0)
        return 0;
    if (is_leaving && is_final)
        return told->held == 0 ? 100 : 99;
    bool is_done = strcmp(told->state, "up") == 0 && !told->is_unsettled && told->misplaced == 0 &&
                   told->moving == 0 && sees_all(apply, told) && (!is_leaving || told->held == 0);
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

/* Whom it waits for, and why: said when that changes. */
static void say_waiting(const struct tr_cluster_member *member, char said[TR_MEMBER_NAME + 96])
{
    char text[TR_MEMBER_NAME + 96];
    snprintf(text, sizeof text, "waiting for %s%s", member->address,
             member->told.is_reached ? ""
                                     : ", which is down: bring it back, or end this and --force");
    if (strcmp(text, said) == 0)
        return;
    memcpy(said, text, sizeof text);
    if (!member->told.is_reached)
        fprintf(stderr, "\n%s\n", text);
}

static void wait_until_done(struct apply *apply, bool is_final, const char *what)
{
    bool is_drawn = isatty(STDERR_FILENO) == 1;
    unsigned calm = 0;
    char said[TR_MEMBER_NAME + 96] = "";
    struct timespec pause = {.tv_nsec = LOOK_MS * 1000000L};
    if (!is_drawn)
        fprintf(stderr, "%s\n", what);
    while (calm < CALM) {
        unsigned sum = 0;
        bool is_done = true;
        look_again(apply);
        tell_again(apply, is_final);
        for (size_t i = 0; i < apply->members.count; i++) {
            unsigned done = done_by(apply, &apply->members.list[i], is_final);
            sum += done;
            if (is_done && done < 100)
                say_waiting(&apply->members.list[i], said);
            is_done &= done == 100;
        }
        calm = is_done ? calm + 1 : 0;
        if (is_drawn)
            draw_bar(sum / (unsigned)apply->members.count, what);
        if (calm < CALM)
            nanosleep(&pause, NULL);
    }
    if (is_drawn)
        fputc('\n', stderr);
}

/* ---- the three steps ---- */

static bool is_there_already(const struct apply *apply)
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
    return apply->members.count == apply->target_count;
}

static void print_end(const struct apply *apply)
{
    for (size_t i = 0; i < apply->members.count; i++) {
        const struct tr_cluster_member *member = &apply->members.list[i];
        if (!is_target(apply, member->address))
            printf(member->told.is_reached ? "%s is empty, and may be stopped\n"
                                           : "%s is down; what it alone holds stays there\n",
                   member->address);
    }
    printf("done: %zu nodes, every timer is where it belongs\n", apply->target_count);
}

static enum tr_exit carry_out(struct apply *apply)
{
    if (!survey(apply))
        return TR_EXIT_FAILED;
    if (is_there_already(apply)) {
        puts("nothing to do: the cluster is as the file says");
        return TR_EXIT_OK;
    }
    print_plan(apply);
    fflush(stdout);
    if (!check_reached(apply))
        return TR_EXIT_FAILED;
    if (apply->is_dry)
        return TR_EXIT_OK;
    if (!is_wanted(apply))
        return tr_failure(COMMAND, "nothing was done");
    if (!tell_all(apply, false))
        return tr_failure(COMMAND, "not all nodes could be told; run it again");
    wait_until_done(apply, false, "moving timers to where they belong");
    if (!tell_all(apply, true))
        return tr_failure(COMMAND, "not all nodes could be told; run it again");
    wait_until_done(apply, true, "the new list of nodes is in force");
    print_end(apply);
    return TR_EXIT_OK;
}

static enum tr_exit read_options(struct apply *apply, int argc, char **argv)
{
    struct tr_options options = tr_options_start(COMMAND, option_table, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == 0 && apply->path != NULL)
            return tr_usage_error(COMMAND, "takes one file");
        apply->path = options.id == 0 ? options.value : apply->path;
        apply->node = options.id == OPTION_NODE ? options.value : apply->node;
        apply->secret_file = options.id == OPTION_SECRET ? options.value : apply->secret_file;
        apply->is_dry |= options.id == OPTION_DRY;
        apply->is_sure |= options.id == OPTION_YES;
        apply->is_forced |= options.id == OPTION_FORCE;
        apply->is_help |= options.id == OPTION_HELP;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (apply->path == NULL && !apply->is_help)
        return tr_usage_error(COMMAND, "needs a file with the nodes that the cluster shall have");
    return TR_EXIT_OK;
}

enum tr_exit tr_command_cluster_apply(int argc, char **argv)
{
    struct apply apply = {0};
    enum tr_exit status = read_options(&apply, argc, argv);
    if (status == TR_EXIT_OK && apply.is_help)
        tr_help_print(stdout, "cluster");
    else if (status == TR_EXIT_OK && !read_target(&apply))
        status = TR_EXIT_USAGE;
    else if (status == TR_EXIT_OK)
        status = read_secret(&apply) ? carry_out(&apply) : TR_EXIT_FAILED;
    tr_members_free(&apply.members);
    free(apply.target);
    free(apply.staying);
    return status;
}
