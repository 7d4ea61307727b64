/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The commands that there are: what each is called, how many words it has, what is said of it by
 * COMMAND, and who carries it out.
 */
#ifndef TR_SHELL_FRONT_RESP_VERBS_H
#define TR_SHELL_FRONT_RESP_VERBS_H

#include "shell/front/resp_find.h"

/* All of them; the last has no name. */
extern const struct tr_resp_verb tr_resp_verbs[];

/* resp_keys.c: on keys. */
void tr_resp_set(struct tr_resp_call *call);
void tr_resp_setnx(struct tr_resp_call *call);
void tr_resp_setex(struct tr_resp_call *call);
void tr_resp_psetex(struct tr_resp_call *call);
void tr_resp_getset(struct tr_resp_call *call);
void tr_resp_get(struct tr_resp_call *call);
void tr_resp_getdel(struct tr_resp_call *call);
void tr_resp_getex(struct tr_resp_call *call);
void tr_resp_getrange(struct tr_resp_call *call);
void tr_resp_strlen(struct tr_resp_call *call);
void tr_resp_type(struct tr_resp_call *call);
void tr_resp_mget(struct tr_resp_call *call);
void tr_resp_exists(struct tr_resp_call *call);
void tr_resp_del(struct tr_resp_call *call);
void tr_resp_mset(struct tr_resp_call *call);
void tr_resp_msetnx(struct tr_resp_call *call);
void tr_resp_incr(struct tr_resp_call *call);
void tr_resp_decr(struct tr_resp_call *call);
void tr_resp_incrby(struct tr_resp_call *call);
void tr_resp_decrby(struct tr_resp_call *call);
void tr_resp_append(struct tr_resp_call *call);
void tr_resp_setrange(struct tr_resp_call *call);

/* resp_expire.c: when they expire. */
void tr_resp_expire(struct tr_resp_call *call);
void tr_resp_pexpire(struct tr_resp_call *call);
void tr_resp_expireat(struct tr_resp_call *call);
void tr_resp_pexpireat(struct tr_resp_call *call);
void tr_resp_persist(struct tr_resp_call *call);
void tr_resp_ttl(struct tr_resp_call *call);
void tr_resp_pttl(struct tr_resp_call *call);
void tr_resp_expiretime(struct tr_resp_call *call);
void tr_resp_pexpiretime(struct tr_resp_call *call);

/* resp_walk.c: on all keys, and on two. */
void tr_resp_scan(struct tr_resp_call *call);
void tr_resp_keys(struct tr_resp_call *call);
void tr_resp_keyspace_keys(struct tr_resp_call *call);
void tr_resp_randomkey(struct tr_resp_call *call);
void tr_resp_dbsize(struct tr_resp_call *call);
void tr_resp_flush(struct tr_resp_call *call);
void tr_resp_rename(struct tr_resp_call *call);
void tr_resp_renamenx(struct tr_resp_call *call);
void tr_resp_copy(struct tr_resp_call *call);
void tr_resp_incrbyfloat(struct tr_resp_call *call);

/* resp_server.c: about the connection and the server. */
void tr_resp_ping(struct tr_resp_call *call);
void tr_resp_echo(struct tr_resp_call *call);
void tr_resp_quit(struct tr_resp_call *call);
void tr_resp_reset(struct tr_resp_call *call);
void tr_resp_select(struct tr_resp_call *call);
void tr_resp_auth(struct tr_resp_call *call);
void tr_resp_hello(struct tr_resp_call *call);
void tr_resp_client_id(struct tr_resp_call *call);
void tr_resp_client_getname(struct tr_resp_call *call);
void tr_resp_client_setname(struct tr_resp_call *call);
void tr_resp_client_setinfo(struct tr_resp_call *call);
void tr_resp_client_no(struct tr_resp_call *call);
void tr_resp_client_reply(struct tr_resp_call *call);
void tr_resp_client_info(struct tr_resp_call *call);
void tr_resp_client_list(struct tr_resp_call *call);
void tr_resp_client_kill(struct tr_resp_call *call);
void tr_resp_time(struct tr_resp_call *call);
void tr_resp_info(struct tr_resp_call *call);
void tr_resp_config_get(struct tr_resp_call *call);
void tr_resp_memory_usage(struct tr_resp_call *call);

/* resp_cluster.c: about the keyspace and the nodes. */
void tr_resp_create_keyspace(struct tr_resp_call *call);
void tr_resp_keyspace(struct tr_resp_call *call);
void tr_resp_keyspace_set(struct tr_resp_call *call);
void tr_resp_keyspace_where(struct tr_resp_call *call);
void tr_resp_keyspace_read(struct tr_resp_call *call);
void tr_resp_keyspace_ring(struct tr_resp_call *call);
void tr_resp_join(struct tr_resp_call *call);
void tr_resp_leave(struct tr_resp_call *call);
void tr_resp_lost(struct tr_resp_call *call);
void tr_resp_nodes(struct tr_resp_call *call);
/* Whether the client may change the cluster, or all keys at once; if not, that is said. */
bool tr_resp_may_operate(struct tr_resp_call *call);
/* What came of asking for a change. */
void tr_resp_put_change(struct tr_resp_call *call, enum tr_change change, uint16_t who);

/* resp_command.c: about the commands themselves. */
void tr_resp_command(struct tr_resp_call *call);
void tr_resp_command_count(struct tr_resp_call *call);
void tr_resp_command_docs(struct tr_resp_call *call);
void tr_resp_command_getkeys(struct tr_resp_call *call);
void tr_resp_command_info(struct tr_resp_call *call);
void tr_resp_command_list(struct tr_resp_call *call);

#endif
