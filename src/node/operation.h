/* SPDX-License-Identifier: Apache-2.0 */
/* What a request's stages share: operation.c begins and ends it, ask.c asks, write.c writes. */
#ifndef TR_NODE_OPERATION_H
#define TR_NODE_OPERATION_H

#include "node/internal.h"

/* A request's patience, or what twice a round trip takes: after it somebody stands in for who is
 * silent, after twice as much it is answered with what there is, and after four times as much who
 * is to be told has been waited for long enough. */
#define SILENT_MS      250
#define TRIP_BESIDE_MS 50 /* what a sync takes, and more */

/* operation.c */
struct tr_record tr_operation_unpack(const struct tr_node *node,
                                     const struct tr_operation *operation);
/* False: no memory. */
bool tr_operation_keep(struct tr_node *node, struct tr_operation *operation,
                       const struct tr_record *record);
void tr_operation_answer(struct tr_node *node, const struct tr_operation *operation,
                         unsigned status, const char *detail, struct tr_effects *out);
void tr_operation_refuse(struct tr_node *node, const struct tr_operation *operation,
                         unsigned status, const char *detail, struct tr_effects *out);
void tr_operation_finish(struct tr_node *node, struct tr_operation *operation,
                         struct tr_effects *out); /* 200 */
void tr_operation_end(struct tr_node *node, struct tr_operation *operation);
void tr_operation_renumber(struct tr_node *node, struct tr_operation *operation);
/* Members that were asked or told, and have not answered. */
void tr_operation_open(struct tr_operation *operation, uint32_t member);
void tr_operation_close(struct tr_operation *operation, uint32_t member);
bool tr_operation_is_open(const struct tr_operation *operation, uint32_t member);
bool tr_operation_has_open(const struct tr_node *node, const struct tr_operation *operation);

/* ask.c */
void tr_ask_begin(struct tr_node *node, struct tr_operation *operation,
                  const struct tr_event *event);
void tr_ask_answered(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                     enum tr_frame_result result, const struct tr_record *held,
                     struct tr_effects *out);
void tr_ask_conclude(struct tr_node *node, struct tr_operation *operation, bool is_over,
                     struct tr_effects *out);

/* write.c */
void tr_write_begin(struct tr_node *node, struct tr_operation *operation, struct tr_record *record,
                    struct tr_effects *out);
void tr_write_answered(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                       enum tr_frame_result result, const struct tr_record *held,
                       struct tr_effects *out);
/* One that was not waited for any more has it, too. */
void tr_write_late(struct tr_operation *operation, uint16_t member);
/* One that was told to let go has something higher. */
void tr_write_contested(struct tr_node *node, struct tr_operation *operation, uint16_t member,
                        const struct tr_record *held, struct tr_effects *out);
void tr_write_conclude(struct tr_node *node, struct tr_operation *operation, bool is_over,
                       struct tr_effects *out);
/* Nothing more is to be told: it is decided, and answered. */
void tr_write_finish(struct tr_node *node, struct tr_operation *operation, struct tr_effects *out);
void tr_write_stand_in(struct tr_node *node, struct tr_operation *operation,
                       struct tr_effects *out);

#endif
