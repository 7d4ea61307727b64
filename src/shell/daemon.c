/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/daemon.h"

#include "base/assert.h"
#include "base/hash.h"
#include "shell/callback/caller.h"
#include "shell/cluster.h"
#include "shell/front/batch.h"
#include "shell/front/bulk.h"
#include "shell/front/gather.h"
#include "shell/front/http.h"
#include "shell/front/look.h"
#include "shell/front/outlook.h"
#include "shell/front/resp.h"
#include "shell/front/resp_wait.h"
#include "shell/front/server.h"
#include "shell/notify.h"
#include "shell/peer/links.h"
#include "shell/pops.h"
#include "shell/reload.h"
#include "shell/test_clock.h"
#include "shell/view.h"
#include "shell/zones.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define ANSWERS_AHEAD   4
#define LINES_MS        2000
#define TABLES_SIZE     ((size_t)40 << 20)
#define TABLES_SHARE    64 /* and one part in so many of the memory */
#define OPERATIONS_MOST 8192
#define DRAIN_EXTRA_MS  3000 /* beyond the time limit of callbacks */

/* ---- effects ---- */

static void finish_recovery(struct tr_daemon *daemon)
{
    if (daemon->disk != NULL)
        tr_disk_unmap(daemon->disk);
    daemon->is_recovered = true;
}

/* Whoever started this process waits no longer, nor reads its standard error. */
static void tell_starter(struct tr_daemon *daemon, const char *status)
{
    tr_notify(status);
    tr_say_started();
    if (daemon->sources.ready_file == 0)
        return;
    if (write(daemon->sources.ready_file, "r", 1) != 1)
        tr_say(TR_WARNING, "nobody waits to hear that it is ready");
    close(daemon->sources.ready_file);
    daemon->sources.ready_file = 0;
    int nowhere =
        daemon->config.log_folder[0] != '\0' ? open("/dev/null", O_WRONLY | O_CLOEXEC) : -1;
    if (nowhere < 0)
        return;
    dup2(nowhere, STDERR_FILENO);
    close(nowhere);
}

/* In a cluster it is ready when it has heard what it missed. One that waits for others to take it
 * in is as far as it can get by itself. */
static void announce(struct tr_daemon *daemon)
{
    struct tr_node_stats stats;
    tr_node_stats(daemon->node, &stats);
    if (stats.is_guest && !daemon->is_waiting) {
        daemon->is_waiting = true;
        tr_say(TR_STATUS, "no member of the cluster: waits to be taken in");
        tell_starter(daemon, "READY=1\nSTATUS=waits to be taken in");
    }
    if (!stats.is_serving)
        return;
    daemon->is_announced = true;
    bool is_ipv6 = strchr(daemon->config.bind_address, ':') != NULL;
    tr_say(TR_STATUS,
           is_ipv6 ? "ready on [%s]:%u with %llu timers after %llu ms, data in %s"
                   : "ready on %s:%u with %llu timers after %llu ms, data in %s",
           daemon->config.bind_address, tr_server_port(daemon->server),
           (unsigned long long)stats.timers,
           (unsigned long long)(tr_boot_us() - daemon->started_us) / 1000,
           daemon->disk != NULL ? daemon->config.data_dir : "memory alone");
    tell_starter(daemon, "READY=1\nSTATUS=ready");
}

static void refuse_log(struct tr_daemon *daemon, const struct tr_log_check *check)
{
    static const char *const faults[] = {
        [TR_LOG_DAMAGED] = "is damaged",
        [TR_LOG_MISSING] = "does not follow the one before: a segment is missing",
        [TR_LOG_TOO_NEW] = "was written by a newer version of tryst",
        [TR_LOG_NO_MEMORY] = "holds more than [storage] memory-budget allows",
        [TR_LOG_TOO_LARGE] = "holds a timer too large for [storage] segment-size",
    };
    struct tr_log_segment *segments = NULL;
    size_t count = 0;
    char path[4096] = "the log";
    tr_disk_unmap(daemon->disk);
    if (tr_disk_map(daemon->disk, &segments, &count) && check->segment < count)
        tr_disk_path(daemon->disk, segments[check->segment].number, path, sizeof path);
    bool is_repairable = check->verdict == TR_LOG_DAMAGED || check->verdict == TR_LOG_MISSING;
    tr_say(TR_ERROR, "%s %s at offset %zu; not starting%s%s%s", path, faults[check->verdict],
           check->offset, is_repairable ? ". 'tryst log check " : "",
           is_repairable ? daemon->config.data_dir : "",
           is_repairable ? "' tells more, 'tryst log repair' salvages" : "");
    daemon->exit_status = 1;
    uv_stop(&daemon->loop);
}

static void stop(struct tr_daemon *daemon)
{
    daemon->is_stopped = true;
    uv_stop(&daemon->loop);
}

static void carry_out(struct tr_daemon *daemon, const struct tr_effect *effect)
{
    switch (effect->kind) {
    case TR_EFFECT_ANSWER:
    case TR_EFFECT_ANSWER_TIMER:
    case TR_EFFECT_ANSWER_PAGE:
        tr_server_answer(daemon->server, effect);
        return;
    case TR_EFFECT_KEY:
    case TR_EFFECT_KEY_PAGE:
        if (effect + ANSWERS_AHEAD < daemon->effects->items + daemon->effects->count)
            tr_resp_wait_fetch(daemon->server, effect + ANSWERS_AHEAD);
        tr_resp_wait_answer(daemon->server, effect);
        return;
    case TR_EFFECT_FIRE:
        tr_caller_fire(daemon->caller, effect);
        return;
    case TR_EFFECT_LOG_WRITE:
        tr_histogram_add(&daemon->metrics.batch_bytes, effect->of.log.size);
        tr_disk_do(daemon->disk, effect);
        return;
    case TR_EFFECT_SEGMENT_ALLOCATE:
    case TR_EFFECT_SEGMENT_REMOVE:
    case TR_EFFECT_SEGMENT_TRIM:
        tr_disk_do(daemon->disk, effect);
        return;
    case TR_EFFECT_RECOVERED:
        finish_recovery(daemon);
        return;
    case TR_EFFECT_REFUSED:
        refuse_log(daemon, &effect->of.check);
        return;
    case TR_EFFECT_NOTE:
        tr_daemon_say_note(daemon, effect);
        return;
    case TR_EFFECT_STOPPED:
        daemon->is_drained = true;
        return;
    case TR_EFFECT_FRAME_SEND:
        tr_links_send(daemon->links, effect);
        return;
    case TR_EFFECT_LINK_RESET:
        tr_links_reset(daemon->links, effect->of.frame.peer, effect->of.frame.is_anew);
        return;
    }
}

/* ---- the loop ---- */

static void tick(struct tr_daemon *daemon)
{
    struct tr_event event = {.kind = TR_EVENT_TICK};
    tr_daemon_step(daemon, &event);
}

/* Sets the clock to the node's next wish; one that is past fires at once. */
static void set_clock(struct tr_daemon *daemon)
{
    tr_mono_ms at = tr_node_wake_at(daemon->node);
    if (at == daemon->clock_at_ms)
        return;
    struct itimerspec spec = {0};
    bool is_set = at != TR_NEVER && !daemon->test_clock.is_frozen;
    daemon->clock_at_ms = at;
    if (is_set) {
        at -= (uint64_t)((int64_t)daemon->test_clock.skew_us / 1000);
        spec.it_value.tv_sec = (time_t)(at / 1000);
        spec.it_value.tv_nsec = (long)(at % 1000) * 1000000 + 1;
    }
    timerfd_settime(daemon->clock_file, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void on_clock(uv_poll_t *poll, int status, int events)
{
    struct tr_daemon *daemon = poll->data;
    uint64_t expirations;
    (void)status;
    (void)events;
    if (read(daemon->clock_file, &expirations, sizeof expirations) > 0)
        daemon->clock_at_ms = TR_NEVER;
    tick(daemon);
    tr_streams_flush(&daemon->streams);
}

static void read_wall(struct tr_daemon *daemon)
{
    if (daemon->test_clock.is_on && daemon->wall_base_us != 0)
        return; /* only what a test does moves it */
    daemon->wall_base_us = tr_clock_us(CLOCK_REALTIME) - tr_boot_us() + daemon->wall_offset_us;
}

void tr_daemon_read_wall_offset(struct tr_daemon *daemon)
{
    const char *path = getenv("TRYST_WALL_OFFSET_FILE");
    char text[32] = "";
    FILE *file = path == NULL ? NULL : fopen(path, "re");
    if (file == NULL)
        return;
    if (fgets(text, sizeof text, file) != NULL)
        daemon->wall_offset_us = (uint64_t)(strtoll(text, NULL, 10) * 1000);
    fclose(file);
}

static void on_again(uv_idle_t *idle)
{
    (void)idle; /* its being active is all that is wanted */
}

/* Before the loop waits: what the turn has gathered goes out, to the peers and to the log. */
static void on_turn(uv_prepare_t *prepare)
{
    struct tr_daemon *daemon = prepare->data;
    read_wall(daemon);
    tr_streams_flush(&daemon->streams);
    if (daemon->is_recovered && !daemon->has_view)
        tr_cluster_set_view(daemon);
    if (daemon->has_view && !daemon->is_announced)
        announce(daemon);
    if (daemon->is_drained && tr_server_is_quiet(daemon->server))
        stop(daemon);
    /* A node that is alone and has no disk answers at once: nothing gets cheaper by a rest. */
    bool is_batched = daemon->config.has_disk || !tr_node_is_alone(daemon->node);
    if (is_batched && tr_rest_takes(&daemon->rest, tr_boot_us())) {
        uv_idle_start(&daemon->again, on_again);
        return;
    }
    uv_idle_stop(&daemon->again);
    if (!daemon->config.has_disk) /* nothing is written that would let those go on who wait */
        tr_resp_release(daemon->server);
    tr_resp_waits_run(daemon->server);
    tr_batches_run(daemon->server);
    tr_http_reread(daemon->server);
    tr_bulks_run(daemon->server);
    tr_outlooks_run(daemon->server);
    tr_looks_run(daemon->server);
    tr_streams_flush(&daemon->streams); /* else what they answer would wait for another turn */
    for (unsigned i = 0; daemon->has_events && i < 4; i++) {
        tick(daemon);
        daemon->has_events = false;
        tr_resp_waits_run(daemon->server);
        tr_batches_run(daemon->server);
        tr_http_reread(daemon->server);
        tr_bulks_run(daemon->server);
        tr_streams_flush(&daemon->streams); /* may read on, and bring new events */
    }
    tr_rest_ends(&daemon->rest, tr_boot_us());
    if (tr_test_clock_run(daemon)) {
        tick(daemon);
        daemon->has_events = true;
    }
    if (daemon->has_events) /* the node was promised a tick */
        uv_idle_start(&daemon->again, on_again);
    set_clock(daemon);
}

static void on_disk_done(void *context, const struct tr_event *event, uint64_t commit_us)
{
    struct tr_daemon *daemon = context;
    struct tr_event copy = *event;
    if (event->kind == TR_EVENT_LOG_WRITTEN)
        tr_histogram_add(&daemon->metrics.commit_us, commit_us);
    copy.has_more = true;
    if (event->kind == TR_EVENT_LOG_WRITTEN)
        tr_rest_committed(&daemon->rest);
    tr_daemon_step(daemon, &copy);
    tr_resp_release(daemon->server);
    tr_batches_run(daemon->server);
    tr_http_reread(daemon->server);
    tr_bulks_run(daemon->server);
    tr_streams_flush(&daemon->streams);
}

void tr_daemon_configure_node(const struct tr_config *config, struct tr_node_config *node)
{
    *node = (struct tr_node_config){
        .address = {config->localhost, strlen(config->localhost)},
        .has_log = config->has_disk,
        .has_spare = true,
        .is_always_synced = config->sync == TR_SYNC_ALWAYS,
        .segment_size = config->segment_size,
        .opaque_max = config->opaque_max,
        .value_max = config->value_max,
        .flights_max = (uint32_t)config->flights,
        .per_destination = (uint32_t)config->per_destination,
        .attempts_max = (uint32_t)config->attempts,
        .backoff_ms = config->backoff_ms,
        .dead_keep_ms = config->dead_keep_s * 1000,
        .key_keep_ms = config->key_keep_s * 1000,
        .needs_quorum = config->needs_quorum,
        .key_exchange_ms = config->anti_entropy_s * 1000,
        .latency_target_ms = config->target_latency_us / 1000,
        .tombstone_keep_ms = 86400000,
    };
    uint64_t budget = tr_config_budget(config);
    uint64_t operations = budget >> 14 < OPERATIONS_MOST ? budget >> 14 : OPERATIONS_MOST;
    node->operations_max = (uint32_t)operations;
    node->messages_max = (uint32_t)(8 * operations);
    uint64_t hash = tr_hash_xxh3(node->address.text, node->address.size);
    node->identity = config->has_identity
                         ? (uint16_t)(config->deployment_id << 7 | config->instance_id)
                         : (uint16_t)(hash & 1023);
}

/* Who knocks with what is no certificate, or with none that is known, shall not fill the log. */
static void say_tls(struct tr_stream *stream, const char *why)
{
    struct tr_daemon *daemon = stream->all->owner;
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;
    char text[64] = "a stranger";
    daemon->metrics.tls_refused++;
    if (getpeername(stream->file, (struct sockaddr *)&address, &size) == 0)
        uv_ip_name((const struct sockaddr *)&address, text, sizeof text);
    if (tr_say_may(&daemon->tls_lines, uv_now(&daemon->loop)))
        tr_say(TR_WARNING, "TLS with %s was refused: %s", text, why);
}

/* ---- signals ---- */

static void on_drain_limit(uv_timer_t *timer)
{
    tr_say(TR_WARNING,
           "stopping although callbacks or answers are under way: the callbacks are made "
           "again at the next start");
    stop(timer->data);
}

static void drain(struct tr_daemon *daemon)
{
    if (daemon->is_draining) {
        stop(daemon); /* asked twice: now */
        return;
    }
    daemon->is_draining = true;
    tr_say(TR_STATUS, "stopping: finishing what is under way");
    tr_notify("STOPPING=1");
    tr_server_drain(daemon->server);
    struct tr_event event = {.kind = TR_EVENT_DRAIN_ASKED};
    tr_daemon_step(daemon, &event);
    uv_timer_start(&daemon->drain_limit, on_drain_limit,
                   daemon->config.callback_timeout_ms + DRAIN_EXTRA_MS, 0);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct tr_daemon *daemon = handle->data;
    if (number == SIGHUP)
        tr_daemon_reload(daemon);
    else if (number == SIGUSR1)
        tr_cluster_resync(daemon);
    else
        drain(daemon);
}

/* ---- from start to end ---- */

static bool open_node(struct tr_daemon *daemon)
{
    struct tr_node_config config;
    const struct tr_config *from = &daemon->config;
    tr_daemon_configure_node(from, &config);
    daemon->zones = tr_zone_cache_open(daemon);
    if (daemon->zones == NULL)
        return false;
    config.zones = tr_zone_cache_as_zones(daemon->zones);
    config.is_clock_exact = daemon->test_clock.is_on;
    if (getrandom(&config.seed, sizeof config.seed, 0) < 0 ||
        getrandom(config.store_id, sizeof config.store_id, 0) < 0) {
        tr_say(TR_ERROR, "no random numbers: %s", strerror(errno));
        return false;
    }
    daemon->region_size = (size_t)tr_config_budget(from);
    daemon->region = mmap(NULL, daemon->region_size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    daemon->effects = malloc(sizeof *daemon->effects);
    if (daemon->region == MAP_FAILED || daemon->effects == NULL) {
        tr_say(TR_ERROR, "cannot have %zu bytes of memory: %s", daemon->region_size,
               strerror(errno));
        return false;
    }
    /* Large pages are faster to fill and to walk; where they cannot be had, nothing is lost. Tables
     * that are used here and there come first, and would be memory for nothing. */
    size_t tables = TABLES_SIZE + daemon->region_size / TABLES_SHARE;
    if (daemon->region_size > tables)
        madvise((char *)daemon->region + tables, daemon->region_size - tables, MADV_HUGEPAGE);
    struct tr_memory memory = {daemon->region, daemon->region_size};
    daemon->node = tr_node_new(&config, &memory);
    if (daemon->node == NULL)
        tr_say(TR_ERROR, "[storage] memory-budget is too small for these limits");
    return daemon->node != NULL;
}

static bool open_disk(struct tr_daemon *daemon)
{
    struct tr_disk_config config = {
        .directory = daemon->config.data_dir,
        .sync = daemon->config.sync,
        .sync_interval_ms = daemon->config.sync_interval_ms,
        .loop = &daemon->loop,
        .report = on_disk_done,
        .context = daemon,
    };
    if (!daemon->config.has_disk)
        return true;
    daemon->disk = tr_disk_open(&config);
    return daemon->disk != NULL;
}

static bool recover(struct tr_daemon *daemon)
{
    struct tr_event event = {.kind = TR_EVENT_RECOVERY_STARTED};
    if (daemon->disk != NULL &&
        !tr_disk_map(daemon->disk, &event.of.recovery.segments, &event.of.recovery.count))
        return false;
    tr_daemon_step(daemon, &event);
    return true;
}

static void say_left_out(struct tr_daemon *daemon, bool is_end)
{
    uint64_t now_ms = tr_boot_us() / 1000;
    tr_say_left_out(&daemon->dead_lines, now_ms, is_end);
    tr_say_left_out(&daemon->discarded_lines, now_ms, is_end);
    tr_say_left_out(&daemon->failed_lines, now_ms, is_end);
    tr_say_left_out(&daemon->tls_lines, now_ms, is_end);
}

static void on_lines(uv_timer_t *timer)
{
    struct tr_daemon *daemon = timer->data;
    say_left_out(daemon, false);
    tr_epochs_watch(daemon);
    tr_certificates_watch(&daemon->certificates, tr_clock_us(CLOCK_REALTIME) / 1000000);
}

static void open_loop(struct tr_daemon *daemon)
{
    static const int numbers[] = {SIGHUP, SIGUSR1, SIGTERM, SIGINT};
    signal(SIGPIPE, SIG_IGN);
    signal(SIGUSR2, SIG_IGN);
    for (unsigned i = 0; i < 4; i++) {
        uv_signal_init(&daemon->loop, &daemon->signals[i]);
        daemon->signals[i].data = daemon;
        uv_signal_start(&daemon->signals[i], on_signal, numbers[i]);
    }
    daemon->clock_file = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    daemon->clock_at_ms = TR_NEVER;
    uv_poll_init(&daemon->loop, &daemon->clock, daemon->clock_file);
    daemon->clock.data = daemon;
    uv_poll_start(&daemon->clock, UV_READABLE, on_clock);
    uv_prepare_init(&daemon->loop, &daemon->turn);
    daemon->turn.data = daemon;
    uv_prepare_start(&daemon->turn, on_turn);
    uv_idle_init(&daemon->loop, &daemon->again);
    tr_daemon_read_wall_offset(daemon);
    read_wall(daemon);
    uv_timer_init(&daemon->loop, &daemon->drain_limit);
    daemon->drain_limit.data = daemon;
    daemon->dead_lines = (struct tr_say_limit){.level = TR_WARNING, .what = "dead pops"};
    daemon->discarded_lines =
        (struct tr_say_limit){.level = TR_WARNING, .what = "failed pops that were given up"};
    daemon->tls_lines = (struct tr_say_limit){.level = TR_WARNING, .what = "refusals by TLS"};
    daemon->failed_lines = (struct tr_say_limit){.level = TR_INFO, .what = "failed callbacks"};
    uv_timer_init(&daemon->loop, &daemon->lines);
    daemon->lines.data = daemon;
    uv_timer_start(&daemon->lines, on_lines, LINES_MS, LINES_MS);
    uv_unref((uv_handle_t *)&daemon->lines);
    tr_notify_watch(&daemon->loop, &daemon->watchdog);
}

static bool open_parts(struct tr_daemon *daemon)
{
    static const struct tr_gather_calls calls = {.has = tr_server_has,
                                                 .answer = tr_server_answer_page,
                                                 .take_own = tr_server_take_own,
                                                 .refuse = tr_server_answer_problem};
    if (!open_node(daemon) || !open_disk(daemon))
        return false;
    tr_view_choose(&daemon->config); /* the data directory is ours by now */
    daemon->server = tr_server_open(daemon);
    daemon->pops = tr_pop_ring_open((size_t)daemon->config.pops_kept);
    daemon->caller = daemon->server == NULL || daemon->pops == NULL ? NULL : tr_caller_open(daemon);
    daemon->links = daemon->caller == NULL ? NULL : tr_links_open(daemon);
    daemon->gather = daemon->links == NULL ? NULL : tr_gather_open(daemon, &calls);
    return daemon->gather != NULL;
}

int tr_daemon_run(const struct tr_config *config, const struct tr_config_sources *sources)
{
    prctl(PR_SET_TIMERSLACK, 1000UL); /* nanoseconds: a rest is no longer than it says */
    struct tr_daemon *daemon = calloc(1, sizeof *daemon);
    if (daemon == NULL)
        return 1;
    daemon->carry_out = carry_out;
    daemon->config = *config;
    daemon->sources = *sources;
    daemon->started_us = tr_boot_us();
    daemon->metrics.started_s = tr_clock_us(CLOCK_REALTIME) / 1000000;
    uv_loop_init(&daemon->loop);
    tr_streams_init(&daemon->streams, &daemon->loop);
    if (sources->has_test_clock)
        tr_test_clock_start(daemon);
    open_loop(daemon);
    daemon->streams.owner = daemon;
    daemon->streams.on_refused = say_tls;
    if (tr_auth_load(&daemon->auth, config) > 0 ||
        tr_certificates_load(&daemon->certificates, config, true) > 0 || !open_parts(daemon) ||
        !recover(daemon)) {
        if (daemon->disk != NULL)
            tr_disk_forsake(daemon->disk);
        return 1;
    }
    if (daemon->exit_status == 0)
        uv_run(&daemon->loop, UV_RUN_DEFAULT);
    if (daemon->is_stopped) {
        tr_server_close(daemon->server);
        tr_gather_close(daemon->gather);
        tr_auth_free(&daemon->auth);
        tr_certificates_free(&daemon->certificates);
        tr_links_close(daemon->links);
        tr_caller_close(daemon->caller);
        tr_pop_ring_close(daemon->pops);
        tr_zone_cache_close(daemon->zones);
        if (daemon->disk != NULL)
            tr_disk_close(daemon->disk);
        daemon->turn.data = NULL;
        uv_prepare_stop(&daemon->turn);
        uv_run(&daemon->loop, UV_RUN_NOWAIT);
        say_left_out(daemon, true);
        tr_say(TR_STATUS, "stopped");
    }
    return daemon->exit_status;
}
