/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The load for tryst and its rivals, and the receiver of its callbacks: one thread, epoll.
 *
 *   create  closed loop: C connections, one request under way on each; rate and latency
 *   paced   open loop: timers at a steady rate; latency of setting them
 *   steady  open loop: timers at a steady rate, whatever the answers do; lateness of their pops
 *   burst   N timers due at one instant; how long until all are delivered and acknowledged
 *
 * The opaque data of a timer carries the time it is due, by the boot clock, so that the receiver
 * can tell how late it is. One line of TSV each.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER  16384
#define FILES   65536
#define LEAD_MS 20 /* steady: how long before its due time a timer is set, at least */

enum target { TRYST, BEANSTALKD, REDIS };

struct socket {
    int file;
    bool is_receiver; /* a callback comes in on it */
    bool is_busy;
    uint64_t sent_us;
    size_t size;
    char bytes[BUFFER];
};

struct run {
    enum target target;
    int port;
    int receiver_port;
    unsigned connections;
    uint64_t count;
    uint64_t rate;
    uint64_t delay_ms;
    int epoll;
    int listener;
    struct socket *sockets[FILES];
    struct socket **clients;
    uint64_t asked;
    uint64_t answered;
    uint64_t refused;
    uint64_t popped;
    uint32_t *latencies; /* of requests */
    int64_t *lateness;   /* of pops, microseconds */
    uint64_t last_pop_us;
    uint64_t due_us; /* burst: the instant */
};

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

static void die(const char *what)
{
    fprintf(stderr, "bench: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct socket *watch(struct run *run, int file, bool is_receiver)
{
    if (file >= FILES)
        die("too many files");
    struct socket *socket = calloc(1, sizeof *socket);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = file};
    int one = 1;
    if (socket == NULL)
        die("memory");
    setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    socket->file = file;
    socket->is_receiver = is_receiver;
    run->sockets[file] = socket;
    if (epoll_ctl(run->epoll, EPOLL_CTL_ADD, file, &event) != 0)
        die("epoll");
    return socket;
}

static struct socket *connect_to(struct run *run)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)run->port)};
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    int file = socket(AF_INET, SOCK_STREAM, 0);
    if (file < 0 || connect(file, (struct sockaddr *)&address, sizeof address) != 0)
        die("connect");
    fcntl(file, F_SETFL, O_NONBLOCK);
    return watch(run, file, false);
}

static void listen_on(struct run *run)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 0};
    socklen_t size = sizeof address;
    inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    run->listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    if (bind(run->listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(run->listener, 1024) != 0 ||
        getsockname(run->listener, (struct sockaddr *)&address, &size) != 0)
        die("listen");
    run->receiver_port = ntohs(address.sin_port);
    struct epoll_event event = {.events = EPOLLIN, .data.fd = run->listener};
    epoll_ctl(run->epoll, EPOLL_CTL_ADD, run->listener, &event);
}

static void send_all(struct socket *socket, const char *bytes, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(socket->file, bytes, size, MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (sent < 0)
            die("send");
        bytes += sent;
        size -= (size_t)sent;
    }
}

/* 60 bytes that begin with the due time. */
static void fill_opaque(char opaque[61], uint64_t due_us)
{
    memset(opaque, '.', 60);
    opaque[60] = '\0';
    int size = snprintf(opaque, 61, "%" PRIu64, due_us);
    opaque[size] = ' ';
}

static void ask(struct run *run, struct socket *socket, uint64_t delay_ms)
{
    char bytes[1024];
    char body[512];
    char opaque[61];
    int size = 0;
    uint64_t now = now_us();
    fill_opaque(opaque, now + delay_ms * 1000);
    switch (run->target) {
    case TRYST: {
        int length = snprintf(body, sizeof body,
                              "{\"timing\":{\"interval\":%" PRIu64 ".%03" PRIu64
                              "},\"callback\":{\"http\":{\"uri\":\"http://127.0.0.1:%d/pop\","
                              "\"opaque\":\"%s\"}}}",
                              delay_ms / 1000, delay_ms % 1000, run->receiver_port, opaque);
        size = snprintf(bytes, sizeof bytes,
                        "POST /timers HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", length,
                        body);
        break;
    }
    case BEANSTALKD:
        size = snprintf(bytes, sizeof bytes, "put 0 %" PRIu64 " 60 60\r\n%s\r\n", delay_ms / 1000,
                        opaque);
        break;
    case REDIS: {
        char score[32];
        int score_size = snprintf(score, sizeof score, "%" PRIu64, now / 1000 + delay_ms);
        char id[32];
        int id_size = snprintf(id, sizeof id, "%" PRIu64, run->asked);
        size = snprintf(bytes, sizeof bytes,
                        "*1\r\n$5\r\nMULTI\r\n*4\r\n$4\r\nZADD\r\n$1\r\nz\r\n$%d\r\n%s\r\n$%d\r\n%s"
                        "\r\n*4\r\n$4\r\nHSET\r\n$1\r\nh\r\n$%d\r\n%s\r\n$60\r\n%s\r\n*1\r\n$4\r\n"
                        "EXEC\r\n",
                        score_size, score, id_size, id, id_size, id, opaque);
        break;
    }
    }
    socket->sent_us = now;
    socket->is_busy = true;
    socket->size = 0;
    run->asked++;
    send_all(socket, bytes, (size_t)size);
}

/* Whether a whole answer is there. */
static bool is_answered(const struct run *run, const struct socket *socket)
{
    const char *bytes = socket->bytes;
    switch (run->target) {
    case TRYST:
        return strstr(bytes, "\r\n\r\n") != NULL;
    case BEANSTALKD:
        return strstr(bytes, "\r\n") != NULL;
    case REDIS: /* +OK +QUEUED +QUEUED *2 :1 :1 */
    {
        unsigned lines = 0;
        for (const char *at = bytes; (at = strstr(at, "\r\n")) != NULL; at += 2)
            lines++;
        return lines >= 6;
    }
    }
    return false;
}

static void on_answer(struct run *run, struct socket *socket)
{
    static const char *const good[] = {"HTTP/1.1 200", "INSERTED", "+OK"};
    if (strncmp(socket->bytes, good[run->target], strlen(good[run->target])) != 0)
        run->refused++;
    socket->is_busy = false;
    run->latencies[run->answered++] = (uint32_t)(now_us() - socket->sent_us);
}

/* Answers every whole callback in the buffer. */
static void on_callback(struct run *run, struct socket *socket)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    for (;;) {
        char *end = strstr(socket->bytes, "\r\n\r\n");
        if (end == NULL || socket->size < (size_t)(end + 64 - socket->bytes))
            return;
        uint64_t due = strtoull(end + 4, NULL, 10);
        uint64_t now = now_us();
        if (run->popped < run->count)
            run->lateness[run->popped] = (int64_t)(now - due);
        run->popped++;
        run->last_pop_us = now;
        send_all(socket, answer, sizeof answer - 1);
        size_t used = (size_t)(end + 64 - socket->bytes);
        memmove(socket->bytes, socket->bytes + used, socket->size - used + 1);
        socket->size -= used;
    }
}

static void on_readable(struct run *run, int file)
{
    if (file == run->listener) {
        int client;
        while ((client = accept4(file, NULL, NULL, SOCK_NONBLOCK)) >= 0)
            watch(run, client, true);
        return;
    }
    struct socket *socket = run->sockets[file];
    ssize_t got = recv(file, socket->bytes + socket->size, BUFFER - 1 - socket->size, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        close(file);
        free(socket);
        run->sockets[file] = NULL;
        return;
    }
    socket->size += (size_t)got;
    socket->bytes[socket->size] = '\0';
    if (socket->is_receiver)
        on_callback(run, socket);
    else if (is_answered(run, socket))
        on_answer(run, socket);
}

static void poll_once(struct run *run, int timeout_ms)
{
    struct epoll_event events[256];
    int count = epoll_wait(run->epoll, events, 256, timeout_ms);
    for (int i = 0; i < count; i++)
        on_readable(run, events[i].data.fd);
}

static void open_clients(struct run *run)
{
    run->clients = calloc(run->connections, sizeof(struct socket *));
    run->latencies = calloc(run->count + run->connections, sizeof *run->latencies);
    run->lateness = calloc(run->count, sizeof *run->lateness);
    if (run->clients == NULL || run->latencies == NULL || run->lateness == NULL)
        die("memory");
    for (unsigned i = 0; i < run->connections; i++)
        run->clients[i] = connect_to(run);
}

static int by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a;
    uint32_t y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int by_lateness(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sets `count` timers as fast as they are answered. */
static double create(struct run *run)
{
    uint64_t start = now_us();
    while (run->answered < run->count) {
        for (unsigned i = 0; i < run->connections && run->asked < run->count; i++) {
            if (run->clients[i]->is_busy)
                continue;
            uint64_t delay = run->delay_ms;
            if (run->due_us > 0) /* rounded down: what the opaque data says is the earliest */
                delay = (run->due_us - now_us()) / 1000;
            ask(run, run->clients[i], delay);
        }
        poll_once(run, 1000);
    }
    return (double)(now_us() - start) / 1e6;
}

static void print_lateness(const struct run *run, const char *name)
{
    uint64_t count = run->popped < run->count ? run->popped : run->count;
    if (count == 0) {
        printf("%s\tno pops\n", name);
        return;
    }
    qsort(run->lateness, count, sizeof *run->lateness, by_lateness);
    printf("%s\tpops\t%" PRIu64 "\tleast_us\t%" PRId64 "\tp50_us\t%" PRId64 "\tp99_us\t%" PRId64
           "\tmost_us\t%" PRId64 "\n",
           name, run->popped, run->lateness[0], run->lateness[count / 2],
           run->lateness[count * 99 / 100], run->lateness[count - 1]);
}

static void print_create(struct run *run, double seconds)
{
    qsort(run->latencies, run->answered, sizeof *run->latencies, by_number);
    printf("create\tcount\t%" PRIu64
           "\tseconds\t%.3f\trate\t%.0f\tp50_us\t%u\tp99_us\t%u\trefused\t%" PRIu64 "\n",
           run->answered, seconds, (double)run->answered / seconds,
           run->latencies[run->answered / 2], run->latencies[run->answered * 99 / 100],
           run->refused);
}

static void run_create(struct run *run)
{
    print_create(run, create(run));
}

/* At a rate, by the clock: what a client waits when nobody is in a hurry. */
static void run_paced(struct run *run)
{
    uint64_t start = now_us();
    unsigned next = 0;
    while (run->answered < run->count) {
        while (run->asked < run->count && now_us() >= start + run->asked * 1000000 / run->rate) {
            for (unsigned i = 0; i < run->connections && run->clients[next]->is_busy; i++)
                next = (next + 1) % run->connections;
            if (run->clients[next]->is_busy)
                break;
            ask(run, run->clients[next], run->delay_ms);
            next = (next + 1) % run->connections;
        }
        poll_once(run, 0);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL); /* others need the core too */
    }
    print_create(run, (double)(now_us() - start) / 1e6);
}

/* Due times at a steady rate; each timer is set by the clock, not when an answer comes. */
static void run_steady(struct run *run)
{
    uint64_t start = now_us();
    uint64_t end = start + run->count * 1000000 / run->rate + run->delay_ms * 1000 + 3000000;
    unsigned next = 0;
    while (run->popped < run->count && now_us() < end) {
        while (run->asked < run->count && now_us() >= start + run->asked * 1000000 / run->rate) {
            for (unsigned i = 0; i < run->connections && run->clients[next]->is_busy; i++)
                next = (next + 1) % run->connections;
            if (run->clients[next]->is_busy)
                break;
            ask(run, run->clients[next], run->delay_ms + LEAD_MS);
            next = (next + 1) % run->connections;
        }
        poll_once(run, 1);
    }
    print_lateness(run, "steady");
}

static void run_burst(struct run *run)
{
    run->due_us = now_us() + run->delay_ms * 1000;
    double seconds = create(run);
    fprintf(stderr, "bench: %" PRIu64 " timers set in %.2f s\n", run->count, seconds);
    uint64_t end = run->due_us + 60000000;
    while (run->popped < run->count && now_us() < end)
        poll_once(run, 100);
    printf("burst\tall_after_ms\t%.1f\n", (double)(run->last_pop_us - run->due_us) / 1000);
    print_lateness(run, "burst");
}

int main(int argc, char **argv)
{
    static struct run run = {.connections = 64, .count = 100000, .rate = 500, .delay_ms = 3600000};
    if (argc < 4) {
        fputs("usage: bench-timers create|paced|steady|burst tryst|beanstalkd|redis PORT "
              "[COUNT [CONNECTIONS [DELAY_MS [RATE [RECEIVER_PORT]]]]]\n",
              stderr);
        return 2;
    }
    run.target = strcmp(argv[2], "beanstalkd") == 0 ? BEANSTALKD
                 : strcmp(argv[2], "redis") == 0    ? REDIS
                                                    : TRYST;
    run.port = atoi(argv[3]);
    if (argc > 4)
        run.count = strtoull(argv[4], NULL, 10);
    if (argc > 5)
        run.connections = (unsigned)strtoul(argv[5], NULL, 10);
    if (argc > 6)
        run.delay_ms = strtoull(argv[6], NULL, 10);
    if (argc > 7)
        run.rate = strtoull(argv[7], NULL, 10);
    run.epoll = epoll_create1(0);
    listen_on(&run);
    if (argc > 8)
        run.receiver_port = atoi(argv[8]);
    open_clients(&run);
    if (strcmp(argv[1], "create") == 0)
        run_create(&run);
    else if (strcmp(argv[1], "paced") == 0)
        run_paced(&run);
    else if (strcmp(argv[1], "steady") == 0)
        run_steady(&run);
    else
        run_burst(&run);
    return run.refused > 0;
}
