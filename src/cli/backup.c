/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst backup`: makes, shows and puts back backups of a running cluster. */
#include "cli/backup.h"
#include "cli/options.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

#define COMMAND   "backup"
#define BAR       30
#define DRAW_NS   100000000 /* at most every so often */
#define LINE_SIZE 79
#define PAUSE_MS  100

enum option_id { OPTION_NODE = 1, OPTION_MERGE, OPTION_HELP };

static const struct tr_option options_of_backup[] = {
    {"--node", true, OPTION_NODE},
    {"--merge", false, OPTION_MERGE},
    {"--help", false, OPTION_HELP},
    {NULL, false, 0},
};

void tr_backup_pause(void)
{
    struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L};
    nanosleep(&pause, NULL);
}

void tr_backup_progress(const char *what, uint64_t done, uint64_t all, bool is_last)
{
    static struct timespec drawn;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    int64_t since = (int64_t)(now.tv_sec - drawn.tv_sec) * 1000000000 + now.tv_nsec - drawn.tv_nsec;
    if (isatty(STDERR_FILENO) != 1 || (!is_last && since < DRAW_NS))
        return;
    drawn = now;
    if (is_last) {
        fprintf(stderr, "\r%*s\r", LINE_SIZE, "");
        return;
    }
    all = all > done ? all : done + (done == 0);
    int filled = (int)(done * BAR / all);
    fprintf(stderr, "\r[%.*s%*s] %3d%%  %llu %s", filled, "##############################",
            BAR - filled, "", (int)(done * 100 / all), (unsigned long long)done, what);
    fflush(stderr);
}

enum tr_exit tr_backup_inspect(const char *path)
{
    struct tr_backup_in in;
    struct tr_backup_counts counts;
    if (!tr_backup_verify(COMMAND, path, &counts) || !tr_backup_open(&in, COMMAND, path))
        return TR_EXIT_FAILED;
    if (!tr_backup_next(&in)) {
        tr_backup_close(&in);
        return TR_EXIT_FAILED;
    }
    char text[32];
    time_t begun = (time_t)(tr_get_varint(&in.block) / 1000);
    struct tm parts;
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&begun, &parts));
    struct tr_span cluster = tr_get_span(&in.block);
    unsigned long long numbers[4];
    for (size_t i = 0; i < 4; i++)
        numbers[i] = tr_get_varint(&in.block);
    printf("keys: %llu\ntimers: %llu\n", (unsigned long long)counts.keys,
           (unsigned long long)counts.timers);
    printf("begun: %s\ncluster: %.*s\n", text, (int)cluster.size, cluster.text);
    printf("keyspace: %llu partitions, %llu copies, %llu asked by a read, %llu by a write\n",
           numbers[0], numbers[1], numbers[2], numbers[3]);
    for (int i = 0; i < 2; i++) {
        uint64_t count = tr_get_varint(&in.block);
        if (i == 0 || count > 0)
            printf(i == 0 ? "nodes: %llu\n" : "did not answer: %llu\n", (unsigned long long)count);
        for (uint64_t k = 0; k < count && !in.block.is_short; k++) {
            struct tr_span node = tr_get_span(&in.block);
            printf("  %.*s\n", (int)node.size, node.text);
        }
    }
    printf("bytes: %llu\nchecksums: %llu, all good\n", (unsigned long long)counts.bytes,
           (unsigned long long)counts.blocks);
    tr_backup_close(&in);
    return TR_EXIT_OK;
}

enum tr_exit tr_command_backup(int argc, char **argv)
{
    struct tr_options options = tr_options_start(COMMAND, options_of_backup, argc, argv);
    enum tr_options_step step;
    const char *operands[2] = {NULL, NULL};
    const char *node = NULL;
    unsigned count = 0;
    bool is_merged = false;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == OPTION_HELP) {
            tr_help_print(stdout, COMMAND);
            return TR_EXIT_OK;
        }
        if (options.id == OPTION_NODE)
            node = options.value;
        else if (options.id == OPTION_MERGE)
            is_merged = true;
        else if (count < 2)
            operands[count++] = options.value;
        else
            return tr_usage_error(COMMAND, "one file at a time");
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (count < 2)
        return tr_usage_error(COMMAND, "create FILE, inspect FILE or restore FILE");
    node = tr_node_address_or_default(node);
    bool is_restore = strcmp(operands[0], "restore") == 0;
    if (is_merged && !is_restore)
        return tr_usage_error(COMMAND, "--merge is for restore");
    if (is_restore)
        return tr_backup_restore(operands[1], node, is_merged);
    if (strcmp(operands[0], "create") == 0)
        return tr_backup_create(operands[1], node);
    if (strcmp(operands[0], "inspect") == 0)
        return tr_backup_inspect(operands[1]);
    return tr_usage_error(COMMAND, "create, inspect or restore, not %s", operands[0]);
}
