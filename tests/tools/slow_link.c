/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slow-link PORT MS: a link that takes MS milliseconds each way, for tests.
 *
 * Connections are redirected to PORT by nftables; it asks the kernel where they were meant to go,
 * connects there from the caller's own address, and passes on what either side sends, and that it
 * has closed, MS later. What it sends is marked, so that it is not redirected again.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define PAIRS_MAX    512
#define MARK         7
#define ORIGINAL_DST 80 /* SO_ORIGINAL_DST, of the kernel's netfilter headers */
#define CHUNK        65536
#define QUEUE_MAX    ((size_t)8 << 20) /* bytes under way in one direction; then it is not read */

/* Something on its way; of size 0: the other side has closed. */
struct chunk {
    struct chunk *next;
    uint64_t at_us;
    size_t size;
    size_t sent;
    char bytes[];
};

struct way {
    struct chunk *first;
    struct chunk *last;
    size_t queued;
    bool is_over; /* nothing more comes */
};

struct pair {
    int files[2];       /* caller, callee; -1: there is none yet */
    struct way ways[2]; /* by who sends */
    struct sockaddr_in from;
    struct sockaddr_in to;
    uint64_t connects_us;
    bool is_used;
};

static uint64_t delay_us;
static struct pair pairs[PAIRS_MAX];

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void end_pair(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        if (pair->files[i] >= 0)
            close(pair->files[i]);
        while (pair->ways[i].first != NULL) {
            struct chunk *chunk = pair->ways[i].first;
            pair->ways[i].first = chunk->next;
            free(chunk);
        }
    }
    memset(pair, 0, sizeof *pair);
}

static void queue(struct way *way, const char *bytes, size_t size)
{
    struct chunk *chunk = malloc(sizeof *chunk + size);
    if (chunk == NULL)
        abort();
    *chunk = (struct chunk){.at_us = now_us() + delay_us, .size = size};
    memcpy(chunk->bytes, bytes, size);
    if (way->first == NULL)
        way->first = chunk;
    else
        way->last->next = chunk;
    way->last = chunk;
    way->queued += size;
    way->is_over |= size == 0;
}

static void accept_one(int listener)
{
    struct sockaddr_in from;
    struct sockaddr_in to;
    socklen_t size = sizeof from;
    int file = accept4(listener, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
    size = sizeof to;
    struct pair *pair = pairs;
    while (pair < pairs + PAIRS_MAX && pair->is_used)
        pair++;
    if (file < 0 || pair == pairs + PAIRS_MAX ||
        getsockopt(file, IPPROTO_IP, ORIGINAL_DST, &to, &size) != 0) {
        if (file >= 0)
            close(file);
        return;
    }
    from.sin_port = 0;
    *pair = (struct pair){.files = {file, -1},
                          .from = from,
                          .to = to,
                          .connects_us = now_us() + delay_us,
                          .is_used = true};
}

static void connect_pair(struct pair *pair)
{
    int mark = MARK;
    int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    pair->files[1] = file;
    if (file < 0 || setsockopt(file, SOL_SOCKET, SO_MARK, &mark, sizeof mark) != 0 ||
        bind(file, (struct sockaddr *)&pair->from, sizeof pair->from) != 0 ||
        (connect(file, (struct sockaddr *)&pair->to, sizeof pair->to) != 0 && errno != EINPROGRESS))
        end_pair(pair);
}

/* False: the connection is broken. */
static bool read_from(struct pair *pair, unsigned side)
{
    static char bytes[CHUNK];
    ssize_t got = recv(pair->files[side], bytes, sizeof bytes, 0);
    if (got >= 0)
        queue(&pair->ways[side], bytes, (size_t)got);
    return got >= 0 || errno == EAGAIN || errno == EINTR;
}

/* Sends what has arrived by now. */
static bool pass_on(struct pair *pair, unsigned side)
{
    struct way *way = &pair->ways[side];
    int file = pair->files[1 - side];
    while (way->first != NULL && way->first->at_us <= now_us()) {
        struct chunk *chunk = way->first;
        if (chunk->size == 0)
            return false; /* it is closed as a whole: nodes do not half-close */
        ssize_t put =
            send(file, chunk->bytes + chunk->sent, chunk->size - chunk->sent, MSG_NOSIGNAL);
        if (put < 0)
            return errno == EAGAIN || errno == EINTR || errno == ENOTCONN;
        chunk->sent += (size_t)put;
        if (chunk->sent < chunk->size)
            return true;
        way->first = chunk->next;
        way->queued -= chunk->size;
        free(chunk);
    }
    return true;
}

/* How long may be waited, in nanoseconds: until the next chunk is due. */
static uint64_t wait_ns(void)
{
    uint64_t now = now_us();
    uint64_t next = now + 1000000;
    for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++) {
        if (!pair->is_used)
            continue;
        if (pair->files[1] < 0 && pair->connects_us < next)
            next = pair->connects_us;
        for (unsigned i = 0; i < 2 && pair->files[1] >= 0; i++) {
            const struct chunk *first = pair->ways[i].first;
            if (first != NULL && first->sent == 0 && first->at_us < next)
                next = first->at_us;
        }
    }
    return next > now ? (next - now) * 1000 : 0;
}

static short wanted(const struct pair *pair, unsigned side)
{
    const struct way *in = &pair->ways[side];
    const struct chunk *out = pair->ways[1 - side].first;
    bool reads = !in->is_over && in->queued < QUEUE_MAX;
    bool writes = out != NULL && out->at_us <= now_us();
    return (short)((reads ? POLLIN : 0) | (writes ? POLLOUT : 0));
}

static void serve(int listener)
{
    struct pollfd files[1 + 2 * PAIRS_MAX];
    struct pair *owners[1 + 2 * PAIRS_MAX];
    nfds_t count = 0;
    files[count++] = (struct pollfd){.fd = listener, .events = POLLIN};
    for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++) {
        for (unsigned side = 0; side < 2 && pair->is_used; side++) {
            owners[count] = pair;
            files[count++] = (struct pollfd){.fd = pair->files[side], .events = wanted(pair, side)};
        }
    }
    uint64_t ns = wait_ns();
    struct timespec limit = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    if (ppoll(files, count, &limit, NULL) < 0)
        return;
    if (files[0].revents != 0)
        accept_one(listener);
    for (nfds_t i = 1; i < count; i++) {
        unsigned side = (unsigned)(i - 1) % 2;
        short events = files[i].revents;
        if (owners[i]->is_used && (events & (POLLIN | POLLHUP | POLLERR)) != 0 &&
            !owners[i]->ways[side].is_over && !read_from(owners[i], side))
            end_pair(owners[i]);
    }
    for (struct pair *pair = pairs; pair < pairs + PAIRS_MAX; pair++) {
        if (pair->is_used && pair->files[1] < 0 && pair->connects_us <= now_us())
            connect_pair(pair);
        for (unsigned side = 0; side < 2 && pair->is_used && pair->files[1] >= 0; side++) {
            if (!pass_on(pair, side))
                end_pair(pair);
        }
    }
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fputs("usage: slow-link PORT MS\n", stderr);
        return 2;
    }
    int yes = 1;
    delay_us = strtoull(argv[2], NULL, 10) * 1000;
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)strtoul(argv[1], NULL, 10))};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1000UL);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 64) != 0) {
        perror("slow-link");
        return 1;
    }
    for (;;)
        serve(listener);
}
