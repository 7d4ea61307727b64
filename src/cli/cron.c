/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst cron`: when an expression is due, in UTC and by the clocks of a zone. */
#include "calendar/cron.h"
#include "calendar/date.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "tzdata/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { OPERAND, ZONE, FROM, COUNT, GAP, OVERLAP, HELP };

static const struct tr_option table[] = {
    {"--zone", true, ZONE},       {"--from", true, FROM},
    {"--count", true, COUNT},     {"--gap", true, GAP},
    {"--overlap", true, OVERLAP}, {"--help", false, HELP},
    {"-h", false, HELP},          {NULL, false, 0},
};

struct wanted {
    struct tr_zone_file zone;
    tr_wall_ms from_ms;
    uint64_t count;
    const char *text;
    enum tr_cron_gap gap;
    enum tr_cron_overlap overlap;
};

static bool read_zone(struct wanted *wanted, const char *name)
{
    switch (tr_zone_load((struct tr_span){name, strlen(name)}, &wanted->zone)) {
    case TR_ZONE_LOADED:
        return true;
    case TR_ZONE_UNKNOWN:
        tr_usage_error("cron", "no zone %s: names are those of /usr/share/zoneinfo", name);
        return false;
    case TR_ZONE_NO_FILES:
        tr_usage_error("cron", "there are no zones here but UTC: the package tzdata has them");
        return false;
    case TR_ZONE_DAMAGED:
        tr_usage_error("cron", "the file of zone %s cannot be read", name);
        return false;
    }
    return false;
}

static bool refuse(const char *what)
{
    tr_usage_error("cron", "%s", what);
    return false;
}

static bool read_overlap(struct wanted *wanted, const char *value)
{
    static const char *const names[] = {
        [TR_OVERLAP_FIRST] = "first", [TR_OVERLAP_LAST] = "last", [TR_OVERLAP_BOTH] = "both"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        wanted->overlap = (enum tr_cron_overlap)i;
        if (strcmp(value, names[i]) == 0)
            return true;
    }
    return refuse("--overlap is first, last or both");
}

static bool read_option(struct wanted *wanted, const struct tr_options *options)
{
    const char *value = options->value;
    switch (options->id) {
    case ZONE:
        return read_zone(wanted, value);
    case FROM:
        return tr_instant_parse((struct tr_span){value, strlen(value)}, &wanted->from_ms) ||
               refuse("--from is an instant, as 2026-11-19T08:30:00Z");
    case COUNT:
        return tr_option_number(options, "--count", 1, 10000, &wanted->count);
    case GAP:
        wanted->gap = strcmp(value, "skip") == 0 ? TR_GAP_SKIP : TR_GAP_AFTER;
        return wanted->gap == TR_GAP_SKIP || strcmp(value, "after") == 0 ||
               refuse("--gap is after or skip");
    case OVERLAP:
        return read_overlap(wanted, value);
    default:
        if (wanted->text != NULL)
            return refuse("one expression at a time, in quotes");
        wanted->text = value;
        return true;
    }
}

/* As the clocks of the zone show it, and how far they are from UTC. */
static void print_local(const struct tr_zone *zone, tr_wall_ms at_ms)
{
    static const char weekdays[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    int64_t at_s = (int64_t)(at_ms / 1000);
    int32_t offset_s = tr_zone_era_at(zone, at_s).offset_s;
    int64_t local_s = at_s + offset_s;
    int64_t days = (local_s >= 0 ? local_s : local_s - (TR_DAY_S - 1)) / TR_DAY_S;
    int64_t second = local_s - days * TR_DAY_S;
    struct tr_date date = tr_date_of_days(days);
    int32_t minutes = abs(offset_s) / 60;
    printf("%s %04" PRId32 "-%02" PRIu32 "-%02" PRIu32 " %02d:%02d:%02d %c%02d:%02d",
           weekdays[tr_date_weekday(days)], date.year, date.month, date.day, (int)(second / 3600),
           (int)(second / 60 % 60), (int)(second % 60), offset_s < 0 ? '-' : '+',
           (int)(minutes / 60), (int)(minutes % 60));
}

static enum tr_exit print(const struct wanted *wanted, const char *text)
{
    struct tr_cron cron = {.gap = wanted->gap, .overlap = wanted->overlap};
    const char *fault = tr_cron_parse((struct tr_span){text, strlen(text)}, &cron);
    if (fault != NULL)
        return tr_usage_error("cron", "the expression %s", fault);
    tr_wall_ms at_ms = wanted->from_ms;
    for (uint64_t i = 0; i < wanted->count; i++) {
        char instant[TR_INSTANT_SIZE + 1];
        if (!tr_cron_next(&cron, &wanted->zone.zone, at_ms, &at_ms)) {
            if (i == 0)
                return tr_usage_error("cron", "the expression is never due within %d years",
                                      TR_CRON_YEARS);
            break;
        }
        tr_instant_write(at_ms, instant);
        printf("%s\t", instant);
        print_local(&wanted->zone.zone, at_ms);
        printf("\n");
    }
    return TR_EXIT_OK;
}

/* One expression a line, an empty line behind the instants of each. */
static enum tr_exit print_lines(const struct wanted *wanted)
{
    char line[TR_CRON_MAX + 2];
    enum tr_exit worst = TR_EXIT_OK;
    while (fgets(line, sizeof line, stdin) != NULL) {
        size_t size = strcspn(line, "\n");
        for (int c = 0; line[size] != '\n' && c != '\n' && c != EOF;)
            c = getchar(); /* what is too long is refused as one */
        line[size] = '\0';
        enum tr_exit status = print(wanted, line);
        worst = status > worst ? status : worst;
        printf("\n");
    }
    return worst;
}

enum tr_exit tr_command_cron(int argc, char **argv)
{
    struct wanted wanted = {
        .zone.zone = tr_zone_utc(), .count = 5, .from_ms = (tr_wall_ms)time(NULL) * 1000};
    struct tr_options options = tr_options_start("cron", table, argc, argv);
    enum tr_options_step step = TR_OPTIONS_ONE;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == HELP) {
            tr_help_print(stdout, "cron");
            return TR_EXIT_OK;
        }
        if (!read_option(&wanted, &options))
            return TR_EXIT_USAGE;
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    if (wanted.text == NULL)
        return tr_usage_error("cron", "an expression is missing, as '0 9 * * mon-fri'");
    enum tr_exit status =
        strcmp(wanted.text, "-") == 0 ? print_lines(&wanted) : print(&wanted, wanted.text);
    tr_zone_unload(&wanted.zone);
    return status;
}
