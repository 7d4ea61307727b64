/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst receive`: a receiver of pops for trying things out. Prints each, and answers 200. */
#include "cli/node.h"
#include "cli/options.h"
#include "cli/timer.h"
#include "http/http.h"
#include "proof/webhook.h"
#include "wire/uri.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 256
#define TOLERANCE_S 300
#define BODY_MAX    ((size_t)16 << 20)

enum option_id { OPTION_COUNT = 1, OPTION_STATUS, OPTION_DELAY, OPTION_SECRET, OPTION_HELP };

static const struct tr_option receive_options[] = {
    {"--count", true, OPTION_COUNT}, {"--status", true, OPTION_STATUS},
    {"--delay", true, OPTION_DELAY}, {"--secret-file", true, OPTION_SECRET},
    {"--help", false, OPTION_HELP},  {NULL, false, 0},
};

struct client {
    struct tr_http http;
    char *bytes;
    size_t size;
    size_t cap;
};

struct receiver {
    struct pollfd files[CLIENTS_MAX + 1]; /* [0] listens */
    struct client *clients[CLIENTS_MAX + 1];
    nfds_t count;
    uint64_t left; /* pops to print before it ends */
    uint64_t status;
    uint64_t delay_ms;
    struct tr_webhook_keys keys; /* count 0: signatures are not looked at */
};

static int listen_on(const char *address)
{
    char uri_text[300];
    struct tr_uri uri;
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[256];
    int one = 1;
    snprintf(uri_text, sizeof uri_text, "http://%.250s/", address);
    if (tr_uri_parse((struct tr_span){uri_text, strlen(uri_text)}, &uri) != NULL)
        return tr_usage_error("receive", "expected HOST:PORT, not '%.100s'", address), -1;
    memcpy(host, uri.host.text, uri.host.size);
    host[uri.host.size] = '\0';
    to.sin_port = htons(uri.port);
    if (inet_pton(AF_INET, host, &to.sin_addr) != 1)
        return tr_usage_error("receive", "%s is no IPv4 address", host), -1;
    int file = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (file < 0 || bind(file, (struct sockaddr *)&to, sizeof to) != 0 || listen(file, 64) != 0) {
        tr_failure("receive", "cannot listen on %s: %s", address, strerror(errno));
        return -1;
    }
    return file;
}

static void add_client(struct receiver *receiver)
{
    int file = accept(receiver->files[0].fd, NULL, NULL);
    if (file < 0)
        return;
    if (receiver->count > CLIENTS_MAX) {
        close(file);
        return;
    }
    struct client *client = tr_allocate(1, sizeof *client);
    tr_http_init_request(&client->http, BODY_MAX);
    receiver->clients[receiver->count] = client;
    receiver->files[receiver->count++] = (struct pollfd){.fd = file, .events = POLLIN};
}

static void drop_client(struct receiver *receiver, nfds_t index)
{
    close(receiver->files[index].fd);
    free(receiver->clients[index]->bytes);
    free(receiver->clients[index]);
    receiver->count--;
    receiver->files[index] = receiver->files[receiver->count];
    receiver->clients[index] = receiver->clients[receiver->count];
}

/* By one of the secrets, within five minutes. */
static bool is_signed(const struct receiver *receiver, const struct client *client)
{
    struct tr_span id = tr_http_header(&client->http, client->bytes, TR_HTTP_WEBHOOK_ID);
    struct tr_span at = tr_http_header(&client->http, client->bytes, TR_HTTP_WEBHOOK_TIMESTAMP);
    struct tr_span by = tr_http_header(&client->http, client->bytes, TR_HTTP_WEBHOOK_SIGNATURE);
    char text[24] = "";
    if (id.text == NULL || by.text == NULL || at.text == NULL || at.size >= sizeof text)
        return false;
    memcpy(text, at.text, at.size);
    uint64_t at_s = strtoull(text, NULL, 10);
    uint64_t now_s = (uint64_t)time(NULL);
    uint64_t off_s = at_s > now_s ? at_s - now_s : now_s - at_s;
    return off_s <= TOLERANCE_S &&
           tr_webhook_verify(&receiver->keys, id, at_s,
                             tr_http_span(client->bytes, client->http.body), by);
}

/* The time, who, and the text, without what could disturb a terminal. */
static void print_pop(const struct client *client, bool is_good)
{
    struct timespec now;
    char when[32];
    struct tr_writer out = tr_writer_on(when, sizeof when);
    clock_gettime(CLOCK_REALTIME, &now);
    tr_put_rfc3339(&out, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000);
    struct tr_span target = tr_http_span(client->bytes, client->http.target);
    struct tr_span body = tr_http_span(client->bytes, client->http.body);
    struct tr_span number = tr_http_header(&client->http, client->bytes, TR_HTTP_SEQUENCE);
    struct tr_span id = tr_http_header(&client->http, client->bytes, TR_HTTP_TIMER_ID);
    printf("%.*s  %.*s  pop %.*s of %.*s: ", (int)out.size, when, (int)target.size, target.text,
           (int)number.size, number.text, (int)id.size, id.text);
    for (size_t i = 0; i < body.size; i++) {
        unsigned char c = (unsigned char)body.text[i];
        putchar(c < 0x20 || c == 0x7f ? '?' : c);
    }
    puts(is_good ? "" : "  (badly signed: 401)");
    fflush(stdout);
}

/* False: the connection is over. */
static bool serve(struct receiver *receiver, nfds_t index)
{
    char answer[64];
    struct client *client = receiver->clients[index];
    if (client->cap - client->size < 65536) {
        client->cap += 65536;
        client->bytes = tr_reallocate(client->bytes, client->cap, 1);
    }
    ssize_t got = recv(receiver->files[index].fd, client->bytes + client->size,
                       client->cap - client->size, 0);
    if (got <= 0)
        return false;
    size_t from = client->size;
    client->size += (size_t)got;
    enum tr_http_state state = tr_http_feed(&client->http, client->bytes, from, client->size);
    while (state == TR_HTTP_COMPLETE) {
        bool is_good = receiver->keys.count == 0 || is_signed(receiver, client);
        print_pop(client, is_good);
        receiver->left -= receiver->left > 0;
        struct timespec delay = {(time_t)(receiver->delay_ms / 1000),
                                 (long)(receiver->delay_ms % 1000) * 1000000};
        nanosleep(&delay, NULL);
        int size =
            snprintf(answer, sizeof answer, "HTTP/1.1 %u Received\r\nContent-Length: 0\r\n\r\n",
                     is_good ? (unsigned)receiver->status : 401);
        if (send(receiver->files[index].fd, answer, (size_t)size, MSG_NOSIGNAL) < 0 ||
            !client->http.keeps_alive)
            return false;
        size_t used = client->http.used;
        memmove(client->bytes, client->bytes + used, client->size - used);
        client->size -= used;
        tr_http_next(&client->http);
        state = tr_http_feed(&client->http, client->bytes, 0, client->size);
    }
    return state != TR_HTTP_BAD;
}

static bool read_secrets(struct receiver *receiver, const char *path)
{
    char text[4096];
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(text, 1, sizeof text, file) : 0;
    if (file == NULL) {
        tr_usage_error("receive", "--secret-file %s: %s", path, strerror(errno));
        return false;
    }
    fclose(file);
    const char *wrong = tr_webhook_parse((struct tr_span){text, size}, &receiver->keys);
    if (wrong != NULL)
        tr_usage_error("receive", "--secret-file %s %s", path, wrong);
    return wrong == NULL;
}

static bool read_option(struct receiver *receiver, struct tr_options *options)
{
    char seconds[64];
    switch (options->id) {
    case OPTION_STATUS:
        return tr_option_number(options, "--status", 200, 599, &receiver->status);
    case OPTION_SECRET:
        return read_secrets(receiver, options->value);
    case OPTION_DELAY:
        if (!tr_write_seconds(options->value, seconds, sizeof seconds)) {
            tr_usage_error("receive", "--delay %s is no duration such as 2s", options->value);
            return false;
        }
        receiver->delay_ms = (uint64_t)(strtod(seconds, NULL) * 1000);
        return true;
    default:
        return tr_option_number(options, "--count", 1, UINT64_MAX, &receiver->left);
    }
}

enum tr_exit tr_command_receive(int argc, char **argv)
{
    static struct receiver receiver = {.left = UINT64_MAX, .status = 200};
    struct tr_options options = tr_options_start("receive", receive_options, argc, argv);
    const char *address = "127.0.0.1:9000";
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == OPTION_HELP) {
            tr_help_print(stdout, "receive");
            return TR_EXIT_OK;
        }
        if (options.id == 0)
            address = options.value;
        else if (!read_option(&receiver, &options))
            return TR_EXIT_USAGE;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    int listener = listen_on(address);
    if (listener < 0)
        return TR_EXIT_FAILED;
    receiver.files[0] = (struct pollfd){.fd = listener, .events = POLLIN};
    receiver.count = 1;
    printf("receiving on http://%s/\n", address);
    fflush(stdout);
    while (receiver.left > 0 && poll(receiver.files, receiver.count, -1) > 0) {
        for (nfds_t i = receiver.count; i > 1; i--) {
            if (receiver.files[i - 1].revents != 0 && !serve(&receiver, i - 1))
                drop_client(&receiver, i - 1);
        }
        if (receiver.files[0].revents != 0)
            add_client(&receiver);
    }
    return TR_EXIT_OK;
}
