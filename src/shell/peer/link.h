/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One connection to another node: an upgraded HTTP connection, on which both prove who they are,
 * and then frames travel. A message is its size (4 bytes) and its bytes: greetings first, frames
 * after them.
 *
 * Owns:    the connection, and a message that is not whole.
 * Bounds:  a greeting has at most TR_GREETING_MAX bytes, a frame TR_FRAME_MAX; what is to be sent
 *          is bounded by who sends: the node waits until its last frames are gone.
 */
#ifndef TR_SHELL_PEER_LINK_H
#define TR_SHELL_PEER_LINK_H

#include "http/http.h"
#include "shell/stream.h"
#include "wire/frame.h"
#include "wire/greeting.h"

enum tr_link_stage {
    TR_LINK_CONNECTING, /* dialled */
    TR_LINK_UPGRADING,  /* dialled: waits for HTTP's word */
    TR_LINK_CALLING,    /* dialled: waits for the reply */
    TR_LINK_LISTENING,  /* accepted: waits for the call */
    TR_LINK_CHECKING,   /* accepted: whether the caller's address is its own is being looked up */
    TR_LINK_PROVING,    /* accepted: waits for the proof */
    TR_LINK_PROVEN,
};

struct tr_link;

/* Any of them may close the link. */
struct tr_link_calls {
    /* A node has called, and has proven nothing yet: go on with tr_link_reply(), or refuse. */
    void (*on_call)(struct tr_link *link);
    void (*on_proven)(struct tr_link *link);
    void (*on_frame)(struct tr_link *link, const uint8_t *bytes, size_t size);
    void (*on_sent)(struct tr_link *link); /* all frames */
    /* It broke, or the other end refused or failed; `reason` says which. It is closed after it. */
    void (*on_failed)(struct tr_link *link, const char *reason);
    void (*on_gone)(struct tr_link *link); /* after tr_link_close(): its memory may go */
};

/* The first member of whoever has one. */
struct tr_link {
    struct tr_stream stream;
    const struct tr_link_calls *calls;
    enum tr_link_stage stage;
    bool is_dialled;
    bool is_sending; /* frames */
    uint64_t version;
    struct tr_span secret;
    char own[TR_GREETING_NAME + 1];
    char other[TR_GREETING_NAME + 1];
    uint8_t own_nonce[TR_NONCE_SIZE];
    uint8_t other_nonce[TR_NONCE_SIZE];
    struct tr_http http;
    char *in;
    size_t in_size;
    size_t in_cap;
};

/* Both keep a copy of the addresses, and refer to the secret. False: the memory may go. A link that
 * is dialled speaks TLS if tr_stream_secure() follows at once; one that is accepted, if its
 * connection did. */
bool tr_link_dial(struct tr_link *link, struct tr_streams *all, const struct sockaddr *from,
                  const struct sockaddr *to, const struct tr_link_calls *calls);
bool tr_link_accept(struct tr_link *link, struct tr_streams *all, int file, struct tr_tls *tls,
                    const struct tr_link_calls *calls);

/* The caller may go on: it is to prove that it knows the secret. */
void tr_link_reply(struct tr_link *link);

/* Tells the other end why, and closes. */
void tr_link_refuse(struct tr_link *link, const char *reason);

void tr_link_send(struct tr_link *link, const uint8_t *bytes, size_t size);
void tr_link_close(struct tr_link *link);

#endif
