/* SPDX-License-Identifier: Apache-2.0 */
/* What clients ask for: create, replace, cancel, read, list, redrive. */
#include "node/internal.h"

#define DEFAULT_FACTOR 2
#define LIST_SCAN_MAX  20000 /* records looked at for one page; then the page is short */
#define WRITE_ROOM     64    /* bytes of the log beside the entries: a stamp's ceiling */

struct request {
    struct tr_node *node;
    const struct tr_event *event;
    struct tr_effects *out;
};

static void answer(const struct request *request, unsigned status, const char *detail)
{
    struct tr_effect *effect = tr_effects_push(request->out, TR_EFFECT_ANSWER);
    effect->of.answer.token = request->event->of.request.token;
    effect->of.answer.status = status;
    effect->of.answer.has_location = false;
    effect->of.answer.detail = detail;
    effect->of.answer.retry_after_s = status == 503 || status == 507 ? 1 : 0;
    request->node->stats.refused += status >= 500;
}

/* Whether a write may begin; if not, it has been answered. */
static bool admit(const struct request *request, size_t size, bool is_new)
{
    struct tr_node *node = request->node;
    if (node->phase != PHASE_READY || !node->replication.is_serving)
        answer(request, 503,
               node->phase == PHASE_DRAINING ? "the node is stopping" : "the node is starting");
    else if (tr_clock_is_ahead(&node->cluster))
        answer(request, 503, "this node's clock is ahead of the others'");
    else if (node->log.is_refused && is_new)
        answer(request, 507, "the disk is full");
    else if (tr_log_lag_ms(&node->log) > node->config.latency_target_ms)
        answer(request, 503, "the disk is too slow for this load");
    else if (!tr_log_can_wait(&node->log, TR_PARTS_MAX + 1) ||
             !tr_log_has_room(&node->log, size + WRITE_ROOM, is_new))
        answer(request, node->log.is_refused ? 507 : 503,
               node->log.is_refused ? "the disk is full" : "too many writes at once");
    else
        return true;
    return false;
}

static void refuse_memory(const struct request *request)
{
    if (!request->node->is_memory_noted)
        tr_note(request->out, TR_NOTE_MEMORY_FULL, 0, 0);
    request->node->is_memory_noted = true;
    answer(request, 503, "the memory budget is used up");
}

static void fill(const struct tr_node *node, const struct tr_timer_body *body,
                 struct tr_record *record)
{
    record->head.key.part = 0;
    record->head.order.sequence = 1;
    record->head.order.attempt = 0;
    record->head.order.moves = 0;
    record->head.lag_ms = 0;
    record->interval_ms = body->interval_ms;
    record->repeat_ms = body->repeat_ms;
    record->head.flags = 0;
    record->head.order.version_node = node->cluster.stamp_node;
    record->head.replicas.count = 1;
    record->head.from.count = 0;
    record->head.from.gone = 0;
    record->head.replicas.members[0] = 0;
    record->head.segment = 0;
    record->tag_count = body->tag_count;
    record->uri = body->uri;
    record->opaque = body->opaque;
    record->content_type = body->content_type;
    memcpy(record->tags, body->tags, body->tag_count * sizeof body->tags[0]);
    /* The millisecond that has begun counts as a whole one: never early. */
    record->head.due_ms = node->time.steady_ms + body->interval_ms + (body->interval_ms > 0);
}

/* In a cluster: what other nodes have a part in. */
static void begin(const struct request *request, const struct tr_record *record)
{
    const struct tr_event *event = request->event;
    enum tr_api_kind kind = event->of.request.kind;
    const struct tr_api_request *query = event->of.request.query;
    struct tr_request asked = {
        .kind = kind == TR_API_CREATE    ? OPERATION_CREATE
                : kind == TR_API_READ    ? OPERATION_READ
                : kind == TR_API_REDRIVE ? OPERATION_PERFORM
                                         : OPERATION_REPLACE,
        .token = event->of.request.token,
        .filter = kind == TR_API_CREATE ? 0 : event->of.request.timer.replicas,
        .argument = kind == TR_API_REDRIVE && query->has_sequence ? query->sequence : 0,
    };
    struct tr_whole whole;
    tr_record_to_whole(record, &whole);
    tr_operation_begin(&request->node->replication, &asked, &whole, request->out);
}

/* Stores a timer, logs it, and answers when that is durable. `ref` is what it replaces, if any. */
static bool store(const struct request *request, struct tr_record *record, tr_ref ref)
{
    struct tr_node *node = request->node;
    tr_ref placed = tr_put(node, record, ref);
    if (placed == TR_ARENA_NONE) {
        refuse_memory(request);
        return false;
    }
    tr_log_wait(&node->log, (struct tr_waiting){
                                .token = request->event->of.request.token,
                                .key = record->head.key,
                                .order = record->head.order,
                                .ref = placed,
                                .factor = record->head.factor,
                                .has_location = true,
                            });
    return true;
}

/* Answers with a Location once everything logged so far is durable. */
static void answer_location(const struct request *request, tr_timer_id id, uint32_t factor)
{
    tr_log_wait(&request->node->log, (struct tr_waiting){
                                         .token = request->event->of.request.token,
                                         .key.id = id,
                                         .factor = factor,
                                         .has_location = true,
                                     });
}

static void create(const struct request *request)
{
    struct tr_node *node = request->node;
    const struct tr_timer_body *body = request->event->of.request.body;
    struct tr_span key = request->event->of.request.key;
    struct tr_record record;
    fill(node, body, &record);
    if (!admit(request, tr_log_record_bound(&record), true))
        return;
    tr_ref old = TR_ARENA_NONE;
    if (key.text != NULL) {
        record.head.key.id = tr_hash_mix(tr_hash_xxh3(key.text, key.size));
        old = tr_book_find_whole(&node->book, record.head.key.id);
        if (old != TR_ARENA_NONE && !tr_is_clustered(node)) {
            struct tr_record first;
            tr_book_unpack(&node->book, old, &first);
            answer_location(request, first.head.key.id, first.head.factor);
            return;
        }
        record.head.flags |= TR_RECORD_KEYED;
    }
    record.head.order.version = tr_clock_stamp(&node->cluster, 0);
    if (key.text == NULL)
        record.head.key.id = tr_new_id(node);
    record.head.factor = body->factor > 0 ? body->factor : DEFAULT_FACTOR;
    node->stats.created++;
    if (tr_is_clustered(node))
        begin(request, &record);
    else
        store(request, &record, TR_ARENA_NONE);
}

/* Ends one record of a timer, by a client's word. */
static void bury(struct tr_node *node, tr_ref ref, uint64_t version)
{
    struct tr_order order = {.version = version};
    tr_end(node, ref, &order);
}

/* The parts of a timer that `version` ends: what it still owes, and its dead pops if asked. */
static void bury_parts(struct tr_node *node, tr_timer_id id, uint64_t version, bool with_dead)
{
    for (unsigned i = 0; i <= TR_PARTS_MAX; i++) {
        struct tr_index_walk walk;
        struct tr_record record;
        tr_ref ref = tr_book_first(&node->book, id, &walk);
        for (; ref != TR_ARENA_NONE; ref = tr_book_next(&walk, id)) {
            tr_book_unpack(&node->book, ref, &record);
            bool is_dead = (record.head.flags & TR_RECORD_DEAD) != 0;
            if (record.head.key.part > 0 && (with_dead || !is_dead))
                break;
        }
        if (ref == TR_ARENA_NONE)
            return;
        bury(node, ref, version);
    }
}

/* The highest version held under an id. */
static uint64_t version_of(const struct tr_node *node, tr_timer_id id)
{
    struct tr_index_walk walk;
    uint64_t version = 0;
    for (tr_ref ref = tr_book_first(&node->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        uint64_t other = tr_book_version(&node->book, ref);
        version = other > version ? other : version;
    }
    return version;
}

#define PARTS_ROOM                                                                                 \
    ((size_t)(TR_PARTS_MAX + 1) * 80) /* bytes of the log that their tombstones take */

static void replace(const struct request *request)
{
    struct tr_node *node = request->node;
    const struct tr_timer_text *text = &request->event->of.request.timer;
    const struct tr_timer_body *body = request->event->of.request.body;
    struct tr_record record;
    if (body->factor > 0 && text->factor > 0 && body->factor != text->factor) {
        answer(request, 400, "reliability.replication-factor disagrees with the timer's id");
        return;
    }
    fill(node, body, &record);
    record.head.key.id = text->id;
    tr_ref ref = tr_book_find_whole(&node->book, record.head.key.id);
    if (ref != TR_ARENA_NONE && text->factor > 0) {
        struct tr_record held;
        tr_book_unpack(&node->book, ref, &held);
        if (held.head.factor != text->factor && (held.head.flags & TR_RECORD_TOMBSTONE) == 0) {
            answer(request, 400, "the timer was made with another replication factor");
            return;
        }
    }
    if (!admit(request, tr_log_record_bound(&record) + PARTS_ROOM, true))
        return;
    record.head.order.version =
        tr_clock_stamp(&node->cluster, version_of(node, record.head.key.id));
    record.head.factor = text->factor > 0   ? text->factor
                         : body->factor > 0 ? body->factor
                                            : DEFAULT_FACTOR;
    if (ref != TR_ARENA_NONE)
        record.head.flags |= tr_book_flags(&node->book, ref) & TR_RECORD_KEYED;
    node->stats.replaced++;
    if (tr_is_clustered(node)) {
        begin(request, &record);
        return;
    }
    if (store(request, &record, ref))
        bury_parts(node, record.head.key.id, record.head.order.version, false);
}

/* In a cluster a tombstone is written like any other record. */
static void cancel_widely(const struct request *request, uint32_t factor)
{
    struct tr_node *node = request->node;
    tr_timer_id id = request->event->of.request.timer.id;
    struct tr_record record = {
        .head.key.id = id,
        .head.order.version = tr_clock_stamp(&node->cluster, version_of(node, id)),
        .head.order.version_node = node->cluster.stamp_node,
        .head.order.sequence = 1,
        .head.due_ms = node->time.steady_ms + TR_TOMBSTONE_MS,
        .head.factor = factor,
        .head.flags = TR_RECORD_TOMBSTONE,
        .uri = {"", 0},
        .opaque = {"", 0},
        .content_type = {"", 0},
    };
    node->stats.cancelled++;
    begin(request, &record);
}

static void cancel(const struct request *request)
{
    struct tr_node *node = request->node;
    const struct tr_timer_text *text = &request->event->of.request.timer;
    if (!admit(request, PARTS_ROOM + 256, false))
        return;
    uint32_t factor = text->factor > 0 ? text->factor : DEFAULT_FACTOR;
    if (tr_is_clustered(node)) {
        cancel_widely(request, factor);
        return;
    }
    tr_ref ref = tr_book_find_whole(&node->book, text->id);
    uint64_t held = version_of(node, text->id);
    if (held > 0) {
        uint64_t version = tr_clock_stamp(&node->cluster, held);
        bool is_there =
            ref != TR_ARENA_NONE && (tr_book_flags(&node->book, ref) & TR_RECORD_TOMBSTONE) == 0;
        node->stats.cancelled += is_there;
        if (is_there)
            bury(node, ref, version);
        bury_parts(node, text->id, version, true);
    }
    answer_location(request, text->id, factor);
}

/* A read or a redrive, which other nodes are asked for. */
static void begin_asking(const struct request *request)
{
    const struct tr_timer_text *text = &request->event->of.request.timer;
    struct tr_record record = {
        .head.key.id = text->id,
        .head.factor = text->factor > 0 ? text->factor : DEFAULT_FACTOR,
    };
    begin(request, &record);
}

static void read_timer(const struct request *request)
{
    struct tr_node *node = request->node;
    struct tr_index_walk walk;
    tr_timer_id id = request->event->of.request.timer.id;
    tr_ref found = TR_ARENA_NONE;
    struct tr_record record;
    if (node->phase < PHASE_READY || !node->replication.is_serving) {
        answer(request, 503, "the node is starting");
        return;
    }
    if (tr_is_clustered(node)) {
        begin_asking(request);
        return;
    }
    for (tr_ref ref = tr_book_first(&node->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        tr_book_unpack(&node->book, ref, &record);
        if ((record.head.flags & TR_RECORD_TOMBSTONE) != 0)
            continue;
        if (found == TR_ARENA_NONE || record.head.key.part == 0)
            found = ref;
    }
    if (found == TR_ARENA_NONE) {
        answer(request, 404, "there is no such timer");
        return;
    }
    struct tr_effect *effect = tr_effects_push(request->out, TR_EFFECT_ANSWER_TIMER);
    effect->of.timer.token = request->event->of.request.token;
    effect->of.timer.ref = found;
}

/* The first of its list that is up lists it, so that each is listed once. */
static bool is_first_up(const struct tr_node *node, const struct tr_record *record)
{
    for (unsigned i = 0; i < record->head.replicas.count; i++) {
        if (record->head.replicas.members[i] == 0)
            return true;
        if (tr_peer_is_up(&node->cluster, record->head.replicas.members[i]))
            return false;
    }
    return false;
}

static bool is_listed(const struct tr_node *node, tr_ref ref, const struct tr_api_request *query)
{
    struct tr_record record;
    uint8_t flags = tr_book_flags(&node->book, ref);
    if ((flags & TR_RECORD_TOMBSTONE) != 0 || ((flags & TR_RECORD_DEAD) != 0) != query->wants_dead)
        return false;
    tr_book_unpack(&node->book, ref, &record);
    if (tr_is_clustered(node) && !is_first_up(node, &record))
        return false;
    bool is_retrying = record.head.order.attempt > 0 || record.head.key.part > 0;
    if (query->wants_retrying ? !is_retrying : !query->wants_dead && record.head.key.part > 0)
        return false;
    if (query->tag.text == NULL)
        return true;
    for (unsigned i = 0; i < record.tag_count; i++) {
        if (tr_span_equals(record.tags[i].name, query->tag))
            return true;
    }
    return false;
}

/* Whether a node is to have a record by the view, and it is due late enough. */
static bool is_for_node(const struct tr_node *node, tr_ref ref, const struct tr_api_request *query)
{
    struct tr_record record;
    uint16_t placed[TR_SET_MAX] = {0};
    uint16_t member = tr_member_find(&node->cluster, query->node);
    tr_book_unpack(&node->book, ref, &record);
    if ((record.head.flags & (TR_RECORD_TOMBSTONE | TR_RECORD_DEAD)) != 0 ||
        record.head.key.part > 0 || record.head.due_ms < node->time.steady_ms + query->from_ms)
        return false;
    unsigned count = 1;
    if (tr_is_clustered(node))
        count = tr_view_place(&node->cluster, record.head.key.id,
                              tr_set_copies(&node->replication, record.head.factor), placed);
    for (unsigned i = 0; i < count; i++) {
        if (placed[i] == member)
            return true;
    }
    return false;
}

/* Why a resync cannot be answered; NULL: it can. */
static const char *find_resync_fault(const struct tr_node *node, const struct tr_api_request *query)
{
    if (query->kind != TR_API_RESYNC_LIST)
        return NULL;
    if (query->node.text == NULL || !query->has_view)
        return "node-for-replicas and cluster-view-id go together";
    if (query->view != node->cluster.view.id)
        return "this node has another cluster-view-id; GET /cluster tells it";
    uint16_t member = tr_member_find(&node->cluster, query->node);
    bool is_known = member != TR_MEMBER_NONE &&
                    (member == 0 || node->cluster.members[member].role != TR_ROLE_NONE);
    return is_known ? NULL : "node-for-replicas is no node of this cluster";
}

/* A page: records by the hash of their id, from behind the cursor. All parts of an id are on one
 * page, so a page may be a few records longer than asked. */
static void list(const struct request *request)
{
    struct tr_node *node = request->node;
    const struct tr_api_request *query = request->event->of.request.query;
    if (node->phase < PHASE_READY || !node->replication.is_serving) {
        answer(request, 503, "the node is starting");
        return;
    }
    const char *fault = find_resync_fault(node, query);
    bool is_resync = query->kind == TR_API_RESYNC_LIST;
    if (fault != NULL) {
        answer(request, 400, fault);
        return;
    }
    uint64_t start = query->has_cursor ? query->cursor + 1 : 0;
    bool is_over = query->has_cursor && query->cursor == UINT64_MAX;
    struct tr_index_walk walk = tr_index_seek(&node->book.index, start);
    tr_ref ref = TR_ARENA_NONE;
    uint32_t count = 0;
    uint64_t last = 0;
    bool has_more = false;
    for (unsigned i = 0; !is_over && tr_index_next(&walk, &ref); i++) {
        uint64_t hash = tr_book_hash(tr_book_id(&node->book, ref));
        has_more = hash != last && (count >= query->limit || i >= LIST_SCAN_MAX);
        if (has_more || count == sizeof node->page / sizeof node->page[0])
            break;
        last = hash;
        if (is_resync ? is_for_node(node, ref, query) : is_listed(node, ref, query))
            node->page[count++] = ref;
    }
    struct tr_effect *effect = tr_effects_push(request->out, TR_EFFECT_ANSWER_PAGE);
    effect->of.page.token = request->event->of.request.token;
    effect->of.page.refs = node->page;
    effect->of.page.count = count;
    effect->of.page.is_resync = is_resync;
    effect->of.page.has_more = has_more;
    effect->of.page.cursor = last;
}

bool tr_has_parts_room(const struct tr_node *node)
{
    return tr_replication_can_wait(&node->replication) &&
           tr_log_has_room(&node->log, PARTS_ROOM, false);
}

static void redrive_one(struct tr_node *node, tr_ref ref, struct tr_record *record,
                        struct tr_waiting waiting)
{
    tr_count(node, &record->head, -1);
    tr_forget_entry(node, ref);
    record->head.flags &= (uint8_t)~TR_RECORD_DEAD;
    /* A part counts its redrives; a timer that died in its place stays behind its attempts. */
    record->head.order.sequence += record->head.key.part > 0;
    if (record->head.key.part == 0)
        record->head.order.moves = tr_next_move(record->head.order.moves, node->cluster.stamp_node);
    record->head.order.attempt = record->head.key.part > 0 ? 0 : record->head.order.attempt;
    record->head.lag_ms += node->time.steady_ms - record->head.due_ms;
    record->head.due_ms = node->time.steady_ms;
    ref = tr_book_update(&node->book, ref, &record->head);
    TR_ASSERT(ref != TR_ARENA_NONE);
    tr_store_log_short(node, &record->head);
    tr_count(node, &record->head, 1);
    node->stats.redriven++;
    waiting.key = record->head.key;
    waiting.order = record->head.order;
    waiting.ref = ref;
    waiting.factor = record->head.factor;
    waiting.has_location = true;
    tr_log_wait(&node->log, waiting);
    tr_pending_replicate(&node->replication, ref, REPLICATE_DURABLE);
}

/* Tries the dead pops of a timer again, all of them or the one asked for. */
unsigned tr_redrive(struct tr_node *node, tr_timer_id id, uint64_t sequence,
                    struct tr_waiting waiting)
{
    tr_ref dead[TR_PARTS_MAX + 1];
    unsigned count = 0;
    struct tr_index_walk walk;
    struct tr_record record;
    for (tr_ref ref = tr_book_first(&node->book, id, &walk); ref != TR_ARENA_NONE;
         ref = tr_book_next(&walk, id)) {
        tr_book_unpack(&node->book, ref, &record);
        bool is_asked = sequence == 0 || sequence == tr_record_pop(&record);
        if ((record.head.flags & TR_RECORD_DEAD) != 0 && is_asked && count <= TR_PARTS_MAX)
            dead[count++] = ref;
    }
    for (unsigned i = 0; i < count; i++) {
        struct tr_waiting nobody = {.token = 0};
        tr_book_unpack(&node->book, dead[i], &record);
        redrive_one(node, dead[i], &record, i + 1 == count ? waiting : nobody);
    }
    return count;
}

static void redrive(const struct request *request)
{
    struct tr_node *node = request->node;
    const struct tr_api_request *query = request->event->of.request.query;
    tr_timer_id id = request->event->of.request.timer.id;
    if (!admit(request, PARTS_ROOM, false))
        return;
    if (tr_is_clustered(node)) {
        begin_asking(request);
        return;
    }
    uint64_t sequence = query->has_sequence ? query->sequence : 0;
    struct tr_waiting waiting = {.token = request->event->of.request.token};
    if (tr_redrive(node, id, sequence, waiting) == 0)
        answer(request, 404, "this timer has no such dead pop");
}

void tr_request(struct tr_node *node, const struct tr_event *event, struct tr_effects *out)
{
    struct request request = {node, event, out};
    node->replication.busy_ms = node->time.now_ms;
    switch (event->of.request.kind) {
    case TR_API_CREATE:
        create(&request);
        return;
    case TR_API_REPLACE:
        replace(&request);
        return;
    case TR_API_CANCEL:
        cancel(&request);
        return;
    case TR_API_READ:
        read_timer(&request);
        return;
    case TR_API_LIST:
    case TR_API_RESYNC_LIST:
        list(&request);
        return;
    case TR_API_REDRIVE:
        redrive(&request);
        return;
    case TR_API_REFERENCES:
        answer(&request, 202, NULL);
        return;
    case TR_API_PING:
    case TR_API_LIVE:
    case TR_API_READY:
    case TR_API_METRICS:
    case TR_API_CLUSTER:
    case TR_API_CLUSTER_SET:
    case TR_API_CLUSTER_RESYNC:
    case TR_API_PEER:
    case TR_API_REFUSED:
        TR_UNREACHABLE("the shell answers these");
    }
}
