/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/names.h"

#include "shell/say.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define NAMES_MAX     4096
#define ADDRESSES_MAX 8
#define KEEP_MS       30000
#define KEEP_FAULT_MS 1000

struct name {
    uv_getaddrinfo_t request;
    struct tr_names *all; /* NULL: nobody is there any more to hear of it */
    struct name *next;
    struct tr_name_wait *waiting;
    char host[TR_HOST_MAX];
    struct sockaddr_storage addresses[ADDRESSES_MAX];
    unsigned count;
    unsigned turn;
    uint64_t until_ms;
    bool is_busy;
    unsigned telling; /* those who waited are being told: it must not be forgotten */
};

struct tr_names {
    uv_loop_t *loop;
    struct name *first;
    unsigned count;
};

static uint64_t now_ms(void)
{
    return uv_hrtime() / 1000000;
}

struct tr_names *tr_names_new(uv_loop_t *loop)
{
    struct tr_names *names = calloc(1, sizeof *names);
    if (names != NULL)
        names->loop = loop;
    return names;
}

static void tell(struct name *name, struct tr_name_wait *wait)
{
    wait->turn = wait->tries++ == 0 ? name->turn++ : wait->turn + 1;
    wait->count = name->count;
    wait->on_found(wait, name->count == 0 ? NULL : &name->addresses[wait->turn % name->count]);
}

void tr_names_cancel(struct tr_name_wait *wait)
{
    if (wait->link == NULL)
        return;
    *wait->link = wait->next;
    if (wait->next != NULL)
        wait->next->link = wait->link;
    wait->link = NULL;
}

static void on_looked_up(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
    struct name *name = request->data;
    name->count = 0;
    for (struct addrinfo *at = found; status == 0 && at != NULL; at = at->ai_next) {
        if (name->count < ADDRESSES_MAX && at->ai_addrlen <= sizeof name->addresses[0])
            memcpy(&name->addresses[name->count++], at->ai_addr, at->ai_addrlen);
    }
    uv_freeaddrinfo(found);
    if (name->all == NULL) {
        free(name);
        return;
    }
    if (name->count == 0)
        tr_say(TR_INFO, "the name %s cannot be looked up: %s", name->host, uv_strerror(status));
    name->until_ms = now_ms() + (name->count > 0 ? KEEP_MS : KEEP_FAULT_MS);
    /* Who asks for it while the others are told has its answer at once, and is not one of them:
     * a long queue for a name that is not there would be gone through here in one go. */
    struct tr_name_wait *waiting = name->waiting;
    name->waiting = NULL;
    name->is_busy = false;
    name->telling++;
    if (waiting != NULL)
        waiting->link = &waiting;
    while (waiting != NULL) {
        struct tr_name_wait *wait = waiting;
        tr_names_cancel(wait);
        tell(name, wait);
    }
    name->telling--;
}

/* Forgets the oldest name that nobody waits for. */
static void forget_one(struct tr_names *names)
{
    struct name **oldest = NULL;
    for (struct name **at = &names->first; *at != NULL; at = &(*at)->next) {
        if (!(*at)->is_busy && (*at)->telling == 0)
            oldest = at;
    }
    if (oldest == NULL)
        return;
    struct name *name = *oldest;
    *oldest = name->next;
    names->count--;
    free(name);
}

static struct name *new_name(struct tr_names *names, const char *host)
{
    if (names->count >= NAMES_MAX)
        forget_one(names);
    struct name *name = calloc(1, sizeof *name);
    if (name == NULL)
        abort();
    memcpy(name->host, host, strnlen(host, TR_HOST_MAX - 1));
    name->all = names;
    name->next = names->first;
    names->first = name;
    names->count++;
    return name;
}

void tr_names_find(struct tr_names *names, const char *host, struct tr_name_wait *wait)
{
    struct name *name = names->first;
    while (name != NULL && strcmp(name->host, host) != 0)
        name = name->next;
    if (name != NULL && !name->is_busy && name->until_ms > now_ms()) {
        tell(name, wait);
        return;
    }
    if (name == NULL)
        name = new_name(names, host);
    wait->next = name->waiting;
    wait->link = &name->waiting;
    if (wait->next != NULL)
        wait->next->link = &wait->next;
    name->waiting = wait;
    if (name->is_busy)
        return;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    name->is_busy = true;
    name->request.data = name;
    if (uv_getaddrinfo(names->loop, &name->request, on_looked_up, name->host, NULL, &hints) != 0)
        on_looked_up(&name->request, UV_EAI_FAIL, NULL);
}

void tr_names_free(struct tr_names *names)
{
    while (names->first != NULL) {
        struct name *name = names->first;
        names->first = name->next;
        name->all = NULL;
        if (!name->is_busy)
            free(name);
        else
            uv_cancel((uv_req_t *)&name->request);
    }
    free(names);
}
