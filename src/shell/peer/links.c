/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/peer/links.h"

#include "base/assert.h"
#include "shell/address.h"
#include "shell/names.h"
#include "shell/often.h"
#include "shell/peer/link.h"
#include "shell/tls.h"
#include "wire/address.h"
#include "wire/uri.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_MS       50
#define YIELD_MS      300 /* the end with the higher address gives the other one as long to dial */
#define BACKOFF_MS    50
#define BACKOFF_MOST  1000
#define GREETING_MS   2000
#define LIVING_MS     1000 /* a link on which something came within this time lives */
#define SILENT_MS     2000 /* heartbeats come ten times a second */
#define UNPROVEN_MOST 64
#define WARN_MS       100
#define ANNOYED_EVERY 64 /* failures to dial after which it is said again */
#define FIGHT_MS      10000
#define FIGHT_LEAST   5 /* links that lived and were replaced in that time: there are two of it */
#define FIGHT_SAY_MS  60000

/* A link, and what it is to us. */
struct peer_link {
    struct tr_link link;
    struct tr_name_wait wait; /* for the addresses of the other end's name */
    struct tr_links *links;
    uint16_t member; /* TR_MEMBER_NONE: it has not said */
    bool is_spare;   /* accepted, and not needed */
    bool is_early;   /* accepted by a node that knows nobody, and may be about to join */
    bool is_host; /* likewise, and it may be taken in by the caller once that has proven itself */
    uint64_t since_ms;
    uint64_t heard_ms;
    struct peer_link *next; /* of those that are unproven */
    struct peer_link **at;
};

/* By member. */
struct peer {
    struct peer_link *proven;
    struct peer_link *dialled; /* under way */
    struct tr_name_wait wait;  /* for its address */
    struct tr_links *links;
    uint64_t dial_ms; /* not before this time */
    uint64_t backoff_ms;
    unsigned failures;              /* since it was last there */
    char said[TR_REFUSAL_MAX + 32]; /* why the last one failed */
    bool is_met;                    /* dial_ms is set */
    struct tr_often replaced;       /* links that lived, by proven ones */
    struct tr_often refused;        /* those that dialled though there was one */
    uint64_t fought_ms;             /* when it was last said that two processes have its address */
};

struct tr_links {
    struct tr_daemon *daemon;
    struct tr_names *names;
    uv_timer_t look;
    struct peer peers[TR_LOG_NODES_MAX];
    struct peer_link *unproven;
    unsigned accepted_count;     /* of them */
    struct sockaddr_storage own; /* that links are dialled from */
    bool has_own;
    uint64_t warned_ms; /* when somebody was last said not to be let in */
};

static uint64_t now_ms(const struct tr_links *links)
{
    return uv_now(&links->daemon->loop);
}

static struct tr_span secret_of(const struct tr_links *links)
{
    const char *secret = links->daemon->config.secret;
    return (struct tr_span){secret, strlen(secret)};
}

/* ---- addresses ---- */

/* Others know this node by its source address: links are dialled from the one it is known by. */
static void find_own(struct tr_links *links)
{
    const struct tr_config *config = &links->daemon->config;
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct tr_span name = {config->localhost, strlen(config->localhost)};
    bool is_any =
        strcmp(config->bind_address, "0.0.0.0") == 0 || strcmp(config->bind_address, "::") == 0;
    links->has_own =
        (tr_address_split(name, host, &port) == NULL && tr_address_parse(host, 0, &links->own)) ||
        (!is_any && tr_address_parse(config->bind_address, 0, &links->own));
}

/* ---- the ends of links ---- */

static void unlist(struct peer_link *link)
{
    if (link->at == NULL)
        return;
    *link->at = link->next;
    if (link->next != NULL)
        link->next->at = link->at;
    link->at = NULL;
    link->links->accepted_count -= !link->link.is_dialled;
}

static void enlist(struct peer_link *link)
{
    struct tr_links *links = link->links;
    link->next = links->unproven;
    link->at = &links->unproven;
    if (link->next != NULL)
        link->next->at = &link->next;
    links->unproven = link;
    links->accepted_count += !link->link.is_dialled;
}

/* Forgets what points to it; it may be closed then. True: it was the one that frames go on. */
static bool detach(struct peer_link *link)
{
    unlist(link);
    tr_names_cancel(&link->wait);
    if (link->member == TR_MEMBER_NONE)
        return false;
    struct peer *peer = &link->links->peers[link->member];
    bool is_proven = peer->proven == link;
    peer->proven = is_proven ? NULL : peer->proven;
    peer->dialled = peer->dialled == link ? NULL : peer->dialled;
    return is_proven;
}

static void dial_later(struct peer *peer)
{
    struct tr_links *links = peer->links;
    uint64_t most = 2 * peer->backoff_ms < BACKOFF_MOST ? 2 * peer->backoff_ms : BACKOFF_MOST;
    peer->dial_ms = now_ms(links) + peer->backoff_ms;
    peer->backoff_ms = most;
    peer->failures++;
}

/* There is a better one. */
static bool is_spare(const struct peer_link *link)
{
    const struct peer *peer =
        link->member == TR_MEMBER_NONE ? NULL : &link->links->peers[link->member];
    bool has_other = peer != NULL && peer->proven != NULL && peer->proven != link;
    return link->is_spare || (link->link.is_dialled && has_other);
}

static struct tr_said said_of(const char *node)
{
    return (struct tr_said){.node = {node, strlen(node)}};
}

/* Who knocks all the time shall not fill the disk. */
static void say_refused(struct tr_links *links, const char *other, const char *reason)
{
    if (now_ms(links) < links->warned_ms + WARN_MS)
        return;
    links->warned_ms = now_ms(links);
    tr_say_of(said_of(other), TR_WARNING, "a link from %s was not made: %s", other, reason);
}

static void say_failed(const struct peer_link *link, const char *reason)
{
    struct peer *peer = &link->links->peers[link->member == TR_MEMBER_NONE ? 0 : link->member];
    const char *other = link->link.other[0] != '\0' ? link->link.other : "a stranger";
    if (is_spare(link) || link->is_early || !link->links->daemon->has_view)
        return;
    if (link->link.stage == TR_LINK_PROVEN)
        tr_say_of(said_of(other), TR_STATUS, "the link to %s is gone: %s", other, reason);
    else if (!link->link.is_dialled)
        say_refused(link->links, other, reason);
    else if (peer->failures % ANNOYED_EVERY == 0 || strcmp(peer->said, reason) != 0) {
        snprintf(peer->said, sizeof peer->said, "%s", reason);
        tr_say_of(said_of(other), TR_STATUS, "no link to %s: %s; it is tried again", other, reason);
    }
}

static void on_failed(struct tr_link *base, const char *reason)
{
    struct peer_link *link = (struct peer_link *)base;
    struct tr_links *links = link->links;
    struct tr_metrics *metrics = &links->daemon->metrics;
    uint16_t member = link->member;
    say_failed(link, reason);
    bool is_joining = link->is_early; /* it was told before this node was: that is no alarm */
    if (base->stage != TR_LINK_PROVEN && !base->is_dialled && !is_spare(link) && !is_joining &&
        links->daemon->has_view)
        metrics->links_refused++;
    bool was_proven = detach(link);
    if (base->is_dialled && base->stage != TR_LINK_PROVEN)
        dial_later(&links->peers[member]);
    if (was_proven) {
        struct tr_event event = {.kind = TR_EVENT_LINK_DOWN, .has_more = true};
        links->peers[member].dial_ms = now_ms(links);
        event.of.frame.peer = member;
        tr_daemon_step(links->daemon, &event);
    }
}

static void on_gone(struct tr_link *link)
{
    free(link);
}

/* ---- frames ---- */

static void on_frame(struct tr_link *base, const uint8_t *bytes, size_t size)
{
    struct peer_link *link = (struct peer_link *)base;
    struct tr_links *links = link->links;
    struct tr_event event = {.kind = TR_EVENT_FRAME_RECEIVED, .has_more = true};
    link->heard_ms = now_ms(links);
    links->daemon->metrics.frames_received++;
    links->daemon->metrics.frame_bytes_received += size;
    event.of.frame.peer = link->member;
    event.of.frame.bytes = bytes;
    event.of.frame.size = size;
    tr_daemon_step(links->daemon, &event);
}

static void on_sent(struct tr_link *base)
{
    struct peer_link *link = (struct peer_link *)base;
    struct tr_event event = {.kind = TR_EVENT_FRAME_SENT, .has_more = true};
    event.of.frame.peer = link->member;
    tr_daemon_step(link->links->daemon, &event);
}

void tr_links_send(struct tr_links *links, const struct tr_effect *effect)
{
    struct peer_link *link = links->peers[effect->of.frame.peer].proven;
    if (link == NULL)
        return; /* the node hears of that in a moment */
    links->daemon->metrics.frames_sent++;
    links->daemon->metrics.frame_bytes_sent += effect->of.frame.size;
    tr_link_send(&link->link, effect->of.frame.bytes, effect->of.frame.size);
}

void tr_links_reset(struct tr_links *links, uint16_t member, bool is_anew)
{
    struct peer *peer = &links->peers[member];
    struct peer_link *link = peer->proven;
    if (link == NULL)
        return;
    if (is_anew) {
        tr_say(TR_INFO, "the link to %s begins anew: this node was taken in", link->link.other);
    } else {
        links->daemon->metrics.links_reset++;
        tr_say(TR_STATUS, "the link to %s is given up: it sent what cannot be, or too late",
               link->link.other);
    }
    detach(link);
    peer->dial_ms = is_anew ? 0 : now_ms(links) + peer->backoff_ms;
    tr_link_close(&link->link);
}

/* ---- greetings ---- */

static bool is_lower(const struct peer_link *link)
{
    return strcmp(link->link.own, link->link.other) < 0;
}

/* Whether the link that is there stays, and a new one is refused. */
static bool is_better(const struct tr_links *links, const struct peer_link *link)
{
    return link != NULL && link->link.is_dialled && is_lower(link) &&
           now_ms(links) < link->heard_ms + LIVING_MS;
}

static bool is_living(const struct tr_links *links, const struct peer_link *link)
{
    return link != NULL && now_ms(links) < link->heard_ms + LIVING_MS;
}

static void say_fought(struct tr_links *links, struct peer *peer, const char *name)
{
    if (peer->fought_ms != 0 && now_ms(links) < peer->fought_ms + FIGHT_SAY_MS)
        return;
    peer->fought_ms = now_ms(links);
    tr_say(TR_ERROR,
           "somebody dials as %s, to which there is a link: do two processes say that they are %s? "
           "Give each node a [cluster] localhost of its own",
           name, name);
}

/* Those who have proven to be this node fight over its link: who has it keeps it. */
/* Somebody dials though there is a link that lives: now and then when both ends start; all the time
 * if two processes say that they are this node. */
static bool is_fought_over(struct tr_links *links, struct peer *peer, const char *name)
{
    if (!is_living(links, peer->proven) ||
        !tr_often_again(&peer->replaced, now_ms(links), FIGHT_MS, FIGHT_LEAST))
        return false;
    peer->replaced.since_ms = now_ms(links);
    say_fought(links, peer, name);
    return true;
}

static void on_proven(struct tr_link *base)
{
    struct peer_link *link = (struct peer_link *)base;
    struct tr_links *links = link->links;
    if (link->is_host) {
        link->member =
            tr_node_meet(links->daemon->node, (struct tr_span){base->other, strlen(base->other)});
        tr_links_look(links);
    }
    TR_ASSERT(link->is_host || link->member != TR_MEMBER_NONE);
    bool has_room = link->member != TR_MEMBER_NONE; /* for one more that it has met */
    struct peer *peer = has_room ? &links->peers[link->member] : NULL;
    if (!has_room || (!base->is_dialled && (is_better(links, peer->proven) ||
                                            is_fought_over(links, peer, base->other)))) {
        unlist(link);
        tr_link_close(base);
        return;
    }
    struct peer_link *before = peer->proven;
    detach(link);
    if (before != NULL) {
        detach(before);
        tr_link_close(&before->link);
    }
    peer->proven = link;
    peer->backoff_ms = BACKOFF_MS;
    peer->failures = 0;
    link->heard_ms = now_ms(links);
    links->daemon->metrics.links_made++;
    tr_say(TR_INFO, "a link to %s is there", base->other);
    struct tr_event event = {.kind = TR_EVENT_LINK_UP, .has_more = true};
    event.of.frame.peer = link->member;
    tr_daemon_step(links->daemon, &event);
}

static void check_source(struct peer_link *link, const struct sockaddr_storage *claimed)
{
    struct sockaddr_storage source = {0};
    socklen_t size = sizeof source;
    bool is_known = getpeername(link->link.stream.file, (struct sockaddr *)&source, &size) == 0;
    if (is_known && claimed != NULL && tr_address_is_same_host(&source, claimed)) {
        tr_link_reply(&link->link);
        return;
    }
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct tr_span name = {link->link.other, strlen(link->link.other)};
    if (claimed != NULL && link->wait.tries < link->wait.count &&
        tr_address_split(name, host, &port) == NULL)
        tr_names_find(link->links->names, host, &link->wait);
    else
        tr_link_refuse(&link->link, "it comes from another address than the node it says it is, "
                                    "and there is no [cluster] secret-file");
}

static void on_source_found(struct tr_name_wait *wait, const struct sockaddr_storage *address)
{
    struct peer_link *link =
        (struct peer_link *)(void *)((char *)wait - offsetof(struct peer_link, wait));
    check_source(link, address);
}

/* With no secret to prove, a node is who it says if it comes from there. */
static void begin_checking(struct peer_link *link, struct tr_span name)
{
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct sockaddr_storage claimed = {0};
    link->link.stage = TR_LINK_CHECKING;
    link->wait.on_found = on_source_found;
    if (tr_address_split(name, host, &port) != NULL)
        tr_link_refuse(&link->link, "its address is none");
    else if (tr_address_parse(host, port, &claimed))
        check_source(link, &claimed);
    else
        tr_names_find(link->links->names, host, &link->wait);
}

/* A node that shares its roster with nobody may be taken into a cluster: by who proves to know its
 * secret, or, where there is none, by who is on this machine. */
static bool may_take_in(const struct peer_link *link)
{
    struct sockaddr_storage source = {0};
    socklen_t size = sizeof source;
    if (!tr_node_is_free(link->links->daemon->node))
        return false;
    return link->link.secret.size > 0 ||
           (getpeername(link->link.stream.file, (struct sockaddr *)&source, &size) == 0 &&
            tr_address_is_loopback(&source));
}

/* A certificate, if TLS is spoken, names its node. */
static bool has_its_name(const struct tr_link *link)
{
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct tr_span name = {link->other, strlen(link->other)};
    return link->stream.tls == NULL ||
           (tr_address_split(name, host, &port) == NULL && tr_tls_bears(link->stream.tls, host));
}

static void on_call(struct tr_link *base)
{
    struct peer_link *link = (struct peer_link *)base;
    struct tr_links *links = link->links;
    struct tr_span name = {base->other, strlen(base->other)};
    uint16_t member = tr_node_member(links->daemon->node, name);
    if (!links->daemon->has_view) {
        tr_link_refuse(base, "it is only starting");
        return;
    }
    if (!has_its_name(base)) {
        tr_link_refuse(base,
                       "by TLS, a node shows a certificate of the address it says it has, and "
                       "this one does not");
        return;
    }
    link->is_host = member == TR_MEMBER_NONE && tr_address_fault(name) == NULL && may_take_in(link);
    if ((member == TR_MEMBER_NONE && !link->is_host) || member == 0) {
        link->is_early = tr_node_is_alone(links->daemon->node);
        tr_link_refuse(base, "the caller's address is of no view that this node has had");
        return;
    }
    link->member = member;
    if (!link->is_host && is_better(links, links->peers[member].proven)) {
        if (tr_often_again(&links->peers[member].refused, now_ms(links), FIGHT_MS, FIGHT_LEAST))
            say_fought(links, &links->peers[member], base->other);
        link->is_spare = true;
        tr_link_refuse(base, "there is a link already");
        return;
    }
    if (base->secret.size > 0)
        tr_link_reply(base);
    else
        begin_checking(link, name);
}

static const struct tr_link_calls link_calls = {
    .on_call = on_call,
    .on_proven = on_proven,
    .on_frame = on_frame,
    .on_sent = on_sent,
    .on_failed = on_failed,
    .on_gone = on_gone,
};

static struct peer_link *new_link(struct tr_links *links)
{
    struct peer_link *link = calloc(1, sizeof *link);
    if (link == NULL)
        abort();
    link->links = links;
    link->member = TR_MEMBER_NONE;
    link->since_ms = now_ms(links);
    link->link.secret = secret_of(links);
    snprintf(link->link.own, sizeof link->link.own, "%s", links->daemon->config.localhost);
    return link;
}

/* Who has been waiting longest makes room: nodes greet at once, strangers who only knock do not. */
static void spare_one(struct tr_links *links)
{
    struct peer_link *oldest = NULL;
    for (struct peer_link *link = links->unproven; link != NULL; link = link->next)
        oldest = link->link.is_dialled ? oldest : link;
    TR_ASSERT(oldest != NULL);
    on_failed(&oldest->link, "there are too many that have not greeted");
    tr_link_close(&oldest->link);
}

void tr_links_accept(struct tr_links *links, int file, struct tr_tls *tls)
{
    if (links->accepted_count >= UNPROVEN_MOST)
        spare_one(links);
    struct peer_link *link = new_link(links);
    if (tr_link_accept(&link->link, &links->daemon->streams, file, tls, &link_calls)) {
        enlist(link);
        return;
    }
    if (tls != NULL)
        tr_tls_free(tls);
    free(link);
}

/* ---- dialling ---- */

/* While nodes are switched over, one that does not take TLS is asked without, in turns. */
static bool speaks_tls(const struct peer *peer)
{
    const struct tr_daemon *daemon = peer->links->daemon;
    uint64_t mode = daemon->config.tls_peers;
    return daemon->certificates.client != NULL &&
           (mode == TR_TLS_REQUIRED || (mode == TR_TLS_TAKEN && peer->failures % 2 == 0));
}

static void dial(struct peer *peer, const struct sockaddr_storage *address)
{
    struct tr_links *links = peer->links;
    uint16_t member = (uint16_t)(peer - links->peers);
    struct tr_span name = tr_node_member_address(links->daemon->node, member);
    struct sockaddr_storage to = *address;
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct peer_link *link = new_link(links);
    bool is_good = tr_address_split(name, host, &port) == NULL;
    tr_address_set_port(&to, port);
    snprintf(link->link.other, sizeof link->link.other, "%.*s", (int)name.size, name.text);
    bool is_from_own = links->has_own && links->own.ss_family == to.ss_family;
    const struct sockaddr *from = is_from_own ? (const struct sockaddr *)&links->own : NULL;
    bool is_dialled = is_good && tr_link_dial(&link->link, &links->daemon->streams, from,
                                              (const struct sockaddr *)&to, &link_calls);
    /* Behind a translation of addresses ours is not on this machine; a secret proves more. */
    if (is_good && !is_dialled && from != NULL && link->link.secret.size > 0)
        is_dialled = tr_link_dial(&link->link, &links->daemon->streams, NULL,
                                  (const struct sockaddr *)&to, &link_calls);
    if (!is_dialled) {
        if (peer->failures % ANNOYED_EVERY == 0)
            tr_say(TR_WARNING, "cannot dial %.*s from %s", (int)name.size, name.text,
                   links->daemon->config.localhost);
        dial_later(peer);
        free(link);
        return;
    }
    link->member = member;
    peer->dialled = link;
    enlist(link);
    if (speaks_tls(peer)) {
        struct tr_tls *tls = tr_tls_new(links->daemon->certificates.client, host);
        if (tls == NULL)
            abort();
        tr_stream_secure(&link->link.stream, tls);
    }
}

static void on_found(struct tr_name_wait *wait, const struct sockaddr_storage *address)
{
    struct peer *peer = (struct peer *)(void *)((char *)wait - offsetof(struct peer, wait));
    if (address == NULL)
        dial_later(peer);
    else if (peer->proven == NULL && peer->dialled == NULL)
        dial(peer, address);
}

static void find_and_dial(struct peer *peer, struct tr_span name)
{
    char host[TR_HOST_MAX];
    uint16_t port = 0;
    struct sockaddr_storage address;
    if (tr_address_split(name, host, &port) != NULL)
        peer->dial_ms = UINT64_MAX; /* it has no address */
    else if (tr_address_parse(host, port, &address))
        dial(peer, &address);
    else
        tr_names_find(peer->links->names, host, &peer->wait);
}

static void look_at(struct tr_links *links, uint16_t member)
{
    struct peer *peer = &links->peers[member];
    struct tr_node_peer seen;
    tr_node_peer(links->daemon->node, member, &seen);
    bool is_under_way = peer->proven != NULL || peer->dialled != NULL || peer->wait.link != NULL;
    if (seen.role == TR_ROLE_NONE || is_under_way)
        return;
    if (!peer->is_met) {
        struct tr_span own = tr_node_address(links->daemon->node);
        size_t least = own.size < seen.address.size ? own.size : seen.address.size;
        int order = memcmp(own.text, seen.address.text, least);
        bool is_first = order < 0 || (order == 0 && own.size < seen.address.size);
        peer->is_met = true;
        peer->links = links;
        peer->wait.on_found = on_found;
        peer->backoff_ms = BACKOFF_MS;
        peer->dial_ms = now_ms(links) + (is_first ? 0 : YIELD_MS);
    }
    if (now_ms(links) >= peer->dial_ms)
        find_and_dial(peer, seen.address);
}

/* A new connection is through sooner than what an old one sends again, later and later. */
static void give_up(struct tr_links *links, struct peer_link *link)
{
    if (link == NULL || now_ms(links) < link->heard_ms + SILENT_MS)
        return;
    on_failed(&link->link, "nothing was heard for two seconds");
    tr_link_close(&link->link);
}

static void on_look(uv_timer_t *timer)
{
    struct tr_links *links = timer->data;
    uint32_t count = tr_node_members(links->daemon->node);
    struct peer_link *next = NULL;
    for (struct peer_link *link = links->unproven; link != NULL; link = next) {
        next = link->next;
        if (now_ms(links) < link->since_ms + GREETING_MS)
            continue;
        on_failed(&link->link, "it did not answer in time");
        tr_link_close(&link->link);
    }
    for (uint32_t i = 1; i < count; i++) {
        give_up(links, links->peers[i].proven);
        if (!links->daemon->is_draining)
            look_at(links, (uint16_t)i);
    }
}

void tr_links_look(struct tr_links *links)
{
    if (tr_node_members(links->daemon->node) > 1 && !uv_is_active((uv_handle_t *)&links->look))
        uv_timer_start(&links->look, on_look, 0, LOOK_MS);
}

struct tr_links *tr_links_open(struct tr_daemon *daemon)
{
    struct tr_links *links = calloc(1, sizeof *links);
    if (links == NULL)
        return NULL;
    links->daemon = daemon;
    links->names = tr_names_new(&daemon->loop);
    uv_timer_init(&daemon->loop, &links->look);
    links->look.data = links;
    find_own(links);
    return links->names == NULL ? NULL : links;
}

void tr_links_close(struct tr_links *links)
{
    uv_timer_stop(&links->look);
    uv_close((uv_handle_t *)&links->look, NULL);
    while (links->unproven != NULL) {
        struct peer_link *link = links->unproven;
        detach(link);
        tr_link_close(&link->link);
    }
    for (uint32_t i = 0; i < TR_LOG_NODES_MAX; i++) {
        struct peer_link *link = links->peers[i].proven;
        tr_names_cancel(&links->peers[i].wait);
        if (link == NULL)
            continue;
        detach(link);
        tr_link_close(&link->link);
    }
    tr_names_free(links->names);
}
