/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst receive`: a receiver of pops for trying things out. Prints each, and answers 200. */
#include "cli/node.h"
#include "cli/options.h"
#include "http/http.h"
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
#define BODY_MAX    ((size_t)16 << 20)

enum option_id { OPTION_COUNT = 1, OPTION_HELP };

static const struct tr_option receive_options[] = {
    {"--count", true, OPTION_COUNT},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
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

/* The time, who, and the text, without what could disturb a terminal. */
static void print_pop(const struct client *client)
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
    putchar('\n');
    fflush(stdout);
}

/* False: the connection is over. */
static bool serve(struct receiver *receiver, nfds_t index)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
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
        print_pop(client);
        receiver->left -= receiver->left > 0;
        if (send(receiver->files[index].fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0 ||
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

enum tr_exit tr_command_receive(int argc, char **argv)
{
    static struct receiver receiver = {.left = UINT64_MAX};
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
        else if (!tr_option_number(&options, "--count", 1, UINT64_MAX, &receiver.left))
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
