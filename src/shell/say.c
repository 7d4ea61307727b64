/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/say.h"

#include "wire/text.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_SIZE 2048
#define LIMIT_TOKENS  20
#define LIMIT_FILL_MS 10000

/* The operator's log is the process's, as standard error is: the one thing here that is global. */
static struct {
    pthread_mutex_t lock;
    enum tr_level level;
    bool is_json;
    bool has_started;
    const char *folder;
    FILE *file;
    time_t hour;
} say = {.lock = PTHREAD_MUTEX_INITIALIZER, .level = TR_STATUS};

static FILE *open_hour(time_t now)
{
    char path[1024];
    char link_path[1024];
    char name[64];
    struct tm at;
    gmtime_r(&now, &at);
    snprintf(name, sizeof name, "tryst_%04d%02d%02dT%02d0000Z.txt", at.tm_year + 1900,
             at.tm_mon + 1, at.tm_mday, at.tm_hour);
    snprintf(path, sizeof path, "%s/%s", say.folder, name);
    snprintf(link_path, sizeof link_path, "%s/tryst_current.txt", say.folder);
    FILE *file = fopen(path, "ae");
    if (file == NULL)
        return NULL;
    unlink(link_path);
    if (symlink(name, link_path) != 0)
        fprintf(stderr, "cannot link %s\n", link_path);
    return file;
}

bool tr_say_setup(enum tr_level level, bool is_json, const char *folder)
{
    pthread_mutex_lock(&say.lock);
    say.level = level;
    say.is_json = is_json;
    say.folder = folder;
    if (say.file != NULL)
        fclose(say.file);
    say.file = NULL;
    say.hour = time(NULL) / 3600;
    if (folder != NULL)
        say.file = open_hour(time(NULL));
    bool is_open = folder == NULL || say.file != NULL;
    pthread_mutex_unlock(&say.lock);
    return is_open;
}

static FILE *stream(time_t now)
{
    if (say.folder != NULL && now / 3600 != say.hour) {
        FILE *next = open_hour(now);
        if (next != NULL) {
            if (say.file != NULL)
                fclose(say.file);
            say.file = next;
        }
        say.hour = now / 3600;
    }
    return say.file != NULL ? say.file : stderr;
}

void tr_say_started(void)
{
    pthread_mutex_lock(&say.lock);
    say.has_started = true;
    pthread_mutex_unlock(&say.lock);
}

/* The end of a line as text; nobody writes a second line into it. */
static void put_plain(struct tr_writer *out, char *message)
{
    for (char *at = message; *at != '\0'; at++) {
        if ((unsigned char)*at < 0x20)
            *at = '?';
    }
    tr_put_text(out, message);
}

static void put_member(struct tr_writer *out, const char *name, struct tr_span text)
{
    if (text.size == 0)
        return;
    tr_put_text(out, name);
    tr_put_json_string(out, text);
}

static void put_json(struct tr_writer *out, const struct tr_said *about, const char *message)
{
    tr_put_text(out, "\",\"message\":");
    tr_put_json_string(out, (struct tr_span){message, strlen(message)});
    put_member(out, ",\"timer\":", about->timer);
    put_member(out, ",\"node\":", about->node);
    put_member(out, ",\"destination\":", about->destination);
    if (about->attempt > 0) {
        tr_put_text(out, ",\"attempt\":");
        tr_put_decimal(out, about->attempt);
    }
    tr_put_text(out, "}");
}

static void write_line(const char *line, size_t size, time_t now, enum tr_level level)
{
    pthread_mutex_lock(&say.lock);
    FILE *file = stream(now);
    fwrite(line, 1, size, file);
    fflush(file);
    if (file != stderr && !say.has_started && level <= TR_WARNING)
        fwrite(line, 1, size, stderr);
    pthread_mutex_unlock(&say.lock);
}

__attribute__((format(printf, 3, 0))) static void
say_line(const struct tr_said *about, enum tr_level level, const char *format, va_list arguments)
{
    static const char *const names[] = {"", "error", "warning", "status", "info", "debug"};
    char message[LINE_MAX_SIZE];
    char line[3 * LINE_MAX_SIZE];
    struct timespec now;
    vsnprintf(message, sizeof message, format, arguments);
    clock_gettime(CLOCK_REALTIME, &now);
    struct tr_writer out = tr_writer_on(line, sizeof line - 1);
    uint64_t at_ms = (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
    tr_put_text(&out, say.is_json ? "{\"time\":\"" : "");
    tr_put_rfc3339(&out, at_ms);
    tr_put_text(&out, say.is_json ? "\",\"level\":\"" : " ");
    tr_put_text(&out, names[level]);
    if (say.is_json) {
        put_json(&out, about, message);
    } else {
        tr_put_text(&out, ": ");
        put_plain(&out, message);
    }
    line[out.size] = '\n';
    write_line(line, out.size + 1, now.tv_sec, level);
}

void tr_say(enum tr_level level, const char *format, ...)
{
    struct tr_said nothing = {.attempt = 0};
    va_list arguments;
    if (level > say.level)
        return;
    va_start(arguments, format);
    say_line(&nothing, level, format, arguments);
    va_end(arguments);
}

void tr_say_of(struct tr_said about, enum tr_level level, const char *format, ...)
{
    va_list arguments;
    if (level > say.level)
        return;
    va_start(arguments, format);
    say_line(&about, level, format, arguments);
    va_end(arguments);
}

static void fill(struct tr_say_limit *limit, uint64_t now_ms)
{
    if (limit->filled_ms == 0) {
        limit->tokens = LIMIT_TOKENS;
        limit->filled_ms = now_ms;
    }
    uint64_t due = (now_ms - limit->filled_ms) / LIMIT_FILL_MS;
    limit->tokens = limit->tokens + due < LIMIT_TOKENS ? limit->tokens + due : LIMIT_TOKENS;
    limit->filled_ms += due * LIMIT_FILL_MS;
}

bool tr_say_may(struct tr_say_limit *limit, uint64_t now_ms)
{
    if (limit->level > say.level)
        return false;
    fill(limit, now_ms);
    /* The line that says how many were left out comes first. */
    bool may = limit->tokens > 0 && limit->left_out == 0;
    limit->tokens -= may;
    limit->left_out += !may;
    return may;
}

void tr_say_left_out(struct tr_say_limit *limit, uint64_t now_ms, bool is_end)
{
    if (limit->left_out == 0)
        return;
    fill(limit, now_ms);
    if (limit->tokens == 0 && !is_end)
        return;
    limit->tokens -= limit->tokens > 0;
    tr_say(limit->level, "%llu more %s were not logged line by line",
           (unsigned long long)limit->left_out, limit->what);
    limit->left_out = 0;
}
