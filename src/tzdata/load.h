/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of the tz database, as the package tzdata has them. */
#ifndef TR_TZDATA_LOAD_H
#define TR_TZDATA_LOAD_H

#include "calendar/zone.h"

/* A zone with the bytes that it points into. */
struct tr_zone_file {
    struct tr_zone zone;
    uint8_t *bytes; /* NULL: of UTC, which has none */
    char name[TR_ZONE_NAME_MAX + 1];
    uint64_t identity; /* of the file as it was read: another one has another */
};

enum tr_zone_load {
    TR_ZONE_LOADED,
    TR_ZONE_UNKNOWN,  /* there is no such zone */
    TR_ZONE_NO_FILES, /* there are none at all: tzdata is not installed */
    TR_ZONE_DAMAGED,
};

/* From the folder that TZDIR names, or /usr/share/zoneinfo. UTC is there without any file. Sets
 * `file` when it is loaded: then tr_zone_unload frees it. */
enum tr_zone_load tr_zone_load(struct tr_span name, struct tr_zone_file *file);
void tr_zone_unload(struct tr_zone_file *file);

/* Whether the file is another one by now, or none. */
bool tr_zone_has_changed(const struct tr_zone_file *file);

#endif
