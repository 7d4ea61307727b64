/* SPDX-License-Identifier: Apache-2.0 */
/* A change is watched: how far it is, and whom it waits for. */
#include "cli/cluster_survey.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define LOOK_MS   200
#define SAY_EVERY 25 /* looks */
#define CALM      2  /* looks in a row that must find all in place */
#define BAR       40

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

void tr_apply_watch(struct tr_apply *apply)
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
        const struct tr_told *word = tr_apply_find_word(apply);
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
