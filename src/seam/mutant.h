/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that can be broken on purpose, and a count of how often each branch was taken: for the
 * simulator, which must find every mutant and leave no branch untried. In the daemon's build
 * both are nothing.
 */
#ifndef TR_SEAM_MUTANT_H
#define TR_SEAM_MUTANT_H

#include <stdbool.h>
#include <stdint.h>

/* clang-format off */
/* A name, what it breaks, and the lives in which it is looked for. */
#define TR_MUTANTS_LIST(X)                                                                         \
    X(ACK_BEFORE_SYNC, "ack-before-sync", "a write is answered before it is on disk", "")          \
    X(ONE_COPY, "one-copy", "a write is answered when one node has it", "")                        \
    X(STALE_IGNORED, "stale-ignored",                                                              \
      "a lower stamp than the one held is taken as stored", "")                                    \
    X(NARROW, "narrow", "writes go to the replica set alone, also in a transition", "")            \
    X(DROP_IS_TOMBSTONE, "drop-is-tombstone", "a drop is written as a tombstone", "")              \
    X(ABSENCE, "absence", "what another node does not have is taken as gone", "")                  \
    X(OLD_FRAMES, "old-frames", "a frame is believed however old it is", "sluggish")               \
    X(ONE_SET, "one-set", "while a record moves, only the new set hears of it", "")                \
    X(ARM_BEFORE_DROPS, "arm-before-drops",                                                        \
      "the new set pops before the old one has dropped it", "")                                    \
    X(PAGE_BY_DUE, "page-by-due", "rebalancing walks by due time, not by a cursor", "")            \
    X(NO_CATCHUP, "no-catchup", "a node that starts pops at once", "")                             \
    X(NO_CLAIMS, "no-claims", "a slow pop is not claimed", "")                                     \
    X(NO_TAKEOVER, "no-takeover", "a dead node's pops wait for their position", "")                \
    X(FORGET_AT_ONCE, "forget-at-once", "tombstones are forgotten when they are written", "")      \
    X(NO_HINT, "no-hint", "no node is hinted for one that is down", "")                            \
    X(TORN_IS_DAMAGE, "torn-is-damage", "a torn tail passes for damage", "alone")                  \
    X(UNDECIDED_POPS, "undecided-pops",                                                            \
      "a write pops before its coordinator has decided", "calm")                                   \
    X(ANNOUNCE_ONCE, "announce-once", "an announcement is given no longer than 250 ms", "")        \
    X(SLOW_IS_SILENT, "slow-is-silent",                                                            \
      "a request's patience does not grow with the links", "calm")                                 \
    X(CATCHUP_IN_HASTE, "catchup-in-haste",                                                        \
      "catching up waits a second, and for no greeting", "slow")                                   \
    X(ENDS_EARLY, "ends-early", "a change ends while a node still moves its records", "")          \
    X(LOWER_ROSTER, "lower-roster", "of two rosters of one epoch each node keeps its own", "")     \
    X(LOST_AWAITED, "lost-awaited", "a change waits for nodes that are lost", "")                  \
    X(OWN_STANDSTILL, "own-standstill",                                                            \
      "a node that stood still takes the others for silent", "starved")                            \
    X(UNDOUBTED, "undoubted",                                                                      \
      "a node pops though it has sent no heartbeat for long", "starved")                           \
    X(DEAF, "deaf",                                                                                \
      "a node whose log was full goes on as if it had missed nothing", "full")                     \
    X(KEY_TOLD_EARLY, "key-told-early", "a key is told of before it is durable", "keys")           \
    X(KEY_END_UNLOGGED, "key-end-unlogged", "that a key was deleted is not logged", "keys")        \
    X(KEY_OVERWRITTEN, "key-overwritten",                                                          \
      "a write under a key that has expired ends what it owes", "keys")                            \
    X(KEY_COUNTED_ANEW, "key-counted-anew", "a key's time to live begins anew at a start", "keys") \
    X(KEY_FLOOR_LATE, "key-floor-late", "after a start, what was flushed is there again", "keys")  \
    X(COUNTS_EARLY, "counts-early", "while nodes join, reads ask the new lists alone", "moving")   \
    X(HINT_KEPT, "hint-kept", "a hint is never handed home", "keyspace")                           \
    X(KEY_TWO_FIRST, "key-two-first",                                                              \
      "while nodes come and go, two carry out the commands of a key", "moving")                    \
    X(KEY_UNSYNCED, "key-unsynced", "a replica tells of a key before it is durable", "keyspace")   \
    X(KEY_ARRIVAL, "key-arrival", "when a key expires is taken by its sender's clock", "keyspace") \
    X(KEY_FORGOTTEN, "key-forgotten", "the end of a key is forgotten at once", "keyspace")         \
    X(KEY_LATEST, "key-latest", "of two pairs with one key the one that came last stays",          \
      "keyspace")

#define TR_RULES_LIST(X)                                                                           \
    X(HINTED, "a node is hinted")                                                                  \
    X(RETURNED, "a replica that was down or full when a write began is sent it at its end")        \
    X(UNMARKED, "a replica that its coordinator could not reach is sent a write by another one")   \
    X(REDRAWN, "an id is drawn again since a replica is down")                                     \
    X(STALE, "a stamp is raised above one that is held")                                           \
    X(EXISTS, "an id is taken")                                                                    \
    X(UNKNOWN, "the outcome of a write is unknown")                                                \
    X(WIDE, "a write goes to every node")                                                          \
    X(YIELDED, "of two writes of one record one lets the other through")                           \
    X(EXTENDED, "a write goes to those who held what it replaced")                                 \
    X(READ, "a timer is read on other nodes")                                                      \
    X(ASKED_AGAIN, "what was not found, while it may move, is asked for once more")                \
    X(REDRIVEN, "dead pops are tried again on another node")                                       \
    X(FULL, "a copy is refused for want of room")                                                  \
    X(ADMISSION, "a new timer is refused since a replica is full")                                 \
    X(PENDING, "a node that has not acknowledged is sent the record again")                        \
    X(HIGHER, "a lower copy is answered with a higher one")                                        \
    X(STRAY_LEARNS, "a copy that should not be there is dropped for a higher one")                 \
    X(COMPARED, "a bucket is equal, and its records are known to be there")                        \
    X(DIFFERS, "a bucket differs")                                                                 \
    X(DIRTY, "a bucket changed while it was compared")                                             \
    X(NEW_STORE, "a node comes back with another store")                                           \
    X(ROLLED_BACK, "a node comes back with an older state of its store")                           \
    X(OLD_FRAME, "a frame is too old")                                                             \
    X(MOVE_BEGUN, "a move begins")                                                                 \
    X(MOVE_AGAIN, "a move begins again, to other nodes")                                           \
    X(MOVE_WAITS, "a move waits for a pop that is near")                                           \
    X(MOVE_TAKEN, "a move is taken over from a node that is gone")                                 \
    X(VIEWS_DIFFER, "rebalancing waits since views differ")                                        \
    X(DROP_SENT, "an old holder is sent a drop")                                                   \
    X(DROP_BUSY, "a drop waits for a callback")                                                    \
    X(DROP_REFUSED, "a drop meets something newer")                                                \
    X(DROP_PASSED, "a drop is passed on to one that it could not reach")                           \
    X(DROP_SPREAD, "a drop is passed on to others that its sender may not reach")                  \
    X(EARLIER_SPREAD, "a drop of an earlier write's copy is told to the nodes of that copy")       \
    X(SHOWN_AGAIN, "a record that is said to have moved on is sent to who said so")                \
    X(MARKED_STRAY, "a node outside the set hears that all of the set have the record")            \
    X(EARLY, "a node that starts waits for a write that is under way")                             \
    X(DROP_NOTHING, "a drop finds nothing")                                                        \
    X(GUEST_DROPS, "a node that is no member yet, and holds nothing, is sent a drop")              \
    X(ABSENT, "a move ends while an old holder is away")                                           \
    X(ABSENT_DROPS, "that one drops its copy when it comes back")                                  \
    X(ADDRESSED, "a tombstone is sent to where its timer would be now")                            \
    X(MOVED, "a copy comes to a node that has dropped it, and is not taken")                       \
    X(HALF_OPEN, "a link is given up since nothing was heard on it for long")                      \
    X(ONE_WAY, "a node is heard but does not hear, and counts as down")                            \
    X(ADOPTED, "an older set names a node that must hear of the change")                           \
    X(JOINED_BY_HINTED, "a record that has popped is joined by nodes hinted for its write")        \
    X(OFFERED, "a holder sends a record to the node that should move it")                          \
    X(MOVE_ENDED, "a move ends")                                                                   \
    X(LEFT, "a node that is no replica any more drops its own copy")                               \
    X(CLAIMED, "a pop is claimed")                                                                 \
    X(CLAIM_HELD, "a claim holds a backup back")                                                   \
    X(TAKEOVER, "a backup pops at once since those before it are down")                            \
    X(LATE_TURN, "a backup pops since those before it were silent too long")                       \
    X(HANDED_OVER, "a receiver was not reached, and another node tries")                           \
    X(BEYOND_UNSAFE, "a timer is not shown beyond a failed pop that is not safe yet")              \
    X(TOMBSTONE_AGAIN, "a tombstone that a node may have lost is sent to it again")                \
    X(SPLIT_OFF, "a failed pop splits off")                                                        \
    X(CATCHUP, "a node catches up")                                                                \
    X(CATCHUP_AGAIN, "a node that stood still catches up again")                                   \
    X(ROSTER_TAKEN, "a node takes another one's roster")                                           \
    X(CHANGE_MADE, "a node makes the roster of a change")                                          \
    X(CHANGE_ENDED, "and the one that ends it")                                                    \
    X(SCAN_TWICE, "a page of a scan is asked for once more since keys may move")                   \
    X(LAST_IN_TURN, "a node that started lately leaves a pop to others")                           \
    X(LATER_STILL, "a node that started lately leaves a pop to one that started before it")        \
    X(CLOCK_CORRECTED, "a node that starts finds that its clock was set")                          \
    X(CLOCK_FOLLOWED, "a node that is new takes the time of the others")                           \
    X(DRAINED, "a node stops, and others make its pops")                                           \
    X(SKEWED, "a node whose clock is ahead refuses writes")                                        \
    X(LATE_WRITE, "a write comes after its record was dropped")                                    \
    X(CAME_BACK, "a node that had dropped a record has it again, and is sent a drop")              \
    X(MOVED_BEFORE, "a write comes after its record moved away from here")                         \
    X(DROPS_FULL, "a drop waits since too many are remembered")                                    \
    X(CLAIMS_FULL, "a node claims more than can be remembered")                                    \
    X(CLAIM_BLOCKED, "a claim waits since too much waits to be sent")                              \
    X(BACKLOG, "a node has more pops than it claims, and says so")                                 \
    X(BACKLOG_HELD, "a backup waits for a node that has more pops than it claims")                 \
    X(CLAIMED_AT_ONCE, "a late pop is claimed when it is made")                                    \
    X(OVERTAKEN, "an outcome overtakes its write")                                                 \
    X(UNDECIDED, "a pop waits until its write is decided")                                         \
    X(JOINED_LATE, "one that ran alone joins others and catches up")                               \
    X(ANNOUNCED_AGAIN, "an announcement takes too long, and is made again with more time")         \
    X(STRAY_WAITS, "a copy that does not name its holder is left to those it names")               \
    X(RECLAIM_FULL, "a full disk is gone through for garbage")                                     \
    X(NOT_POPPING, "a node whose log is full leaves its pops to others")                           \
    X(DEAF_NO_MORE, "a node whose log was full hears what it has missed")                          \
    X(MISSED, "a node that catches up cannot store what it is sent")                               \
    X(LEFT_TO_OTHERS, "a node alone in its view leaves a pop to others")                           \
    X(END_SPREAD, "one that was away hears of an end, and may have moved what it ended")           \
    X(FULL_OF_LIVE, "a full disk takes no new record")                                             \
    X(INHERITED, "a record that moves keeps who has yet to hear of it")                            \
    X(TOMBSTONE_KEPT, "a tombstone waits for a node that has not heard")                           \
    X(TOMBSTONE_GONE, "a tombstone is forgotten")                                                  \
    X(KEY_HINTED, "a node stands in for one of a key's list")                                      \
    X(READ_REPAIR, "a read sends the newest to one that has less")                                 \
    X(CARRIED_OUT_AGAIN, "a command on a key is carried out again over something newer")           \
    X(MODIFIER_READ, "a command reads first, since what is here may be older")                     \
    X(MODIFIER_AWAITED, "a command waits for those of who carried them out before")                \
    X(MODIFIER_PASSED_ON, "a command that has waited goes to the node that is the first by then") \
    X(MODIFIER_YIELDED, "of two nodes that carry out commands on one key one waits")               \
    X(STAMPED_AGAIN, "a write of a key is stamped again, above what a node has")                   \
    X(OTHER_EPOCH, "a node that is asked about a key has another roster")                          \
    X(EXCHANGED, "two nodes have exchanged all keys that they share")                              \
    X(MISSING_TOLD, "holders hear that another one lacks what was written")                        \
    X(LEFT_HALF_WRITTEN, "nodes compare their keys, since one that was writing is lost")           \
    X(OWED_TOO, "a callback that another node owes is owed by who hears of the end, too")          \
    X(STRAY_PASSED, "what a node outside the roster holds is passed on by others")                 \
    X(STRAY_DROPPED, "a pair that others hold is dropped")                                         \
    X(PASSED_ON, "a request with a condition, or a key, is decided by another node")               \
    X(CONDITION_FAILED, "a timer is not as a request wants it")                                    \
    X(REPLAYED, "a request with a key that came before is answered as then")                       \
    X(PASSED_OVER, "pops that nobody could make are passed over")                                  \
    X(FLOOR_AGAIN, "a flush that lost against another change is asked for again")
/* clang-format on */

#define TR_AS_MUTANT(name, text, what, lives) MUTANT_##name,
enum tr_mutant { MUTANT_NONE, TR_MUTANTS_LIST(TR_AS_MUTANT) MUTANT_COUNT };
#undef TR_AS_MUTANT

#define TR_AS_RULE(name, what) RULE_##name,
enum tr_rule { TR_RULES_LIST(TR_AS_RULE) RULE_COUNT };
#undef TR_AS_RULE

/* One try of a node: which rule it breaks, and what it has come through. */
struct tr_trial {
    uint32_t mutant; /* of enum tr_mutant; heeded in the simulator's build alone */
#ifdef TR_MUTANTS
    uint64_t covered[RULE_COUNT];
#endif
};

/* Whether a rule is broken on purpose. */
static inline bool tr_breaks(const struct tr_trial *trial, enum tr_mutant mutant)
{
#ifdef TR_MUTANTS
    return trial->mutant == (uint32_t)mutant;
#else
    (void)trial, (void)mutant;
    return false;
#endif
}

/* A branch was taken. To count that changes nothing that a node goes by. */
static inline void tr_cover(const struct tr_trial *trial, enum tr_rule rule)
{
#ifdef TR_MUTANTS
    ((struct tr_trial *)trial)->covered[rule]++;
#else
    (void)trial, (void)rule;
#endif
}

#endif
