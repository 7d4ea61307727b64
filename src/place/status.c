/* SPDX-License-Identifier: Apache-2.0 */
#include <tryst/place.h>

const char *tryst_place_status_text(enum tryst_place_status status)
{
    switch (status) {
    case TRYST_PLACE_OK:
        return "no error";
    case TRYST_PLACE_UNKNOWN_STRATEGY:
        return "no such strategy";
    case TRYST_PLACE_UNKNOWN_VERSION:
        return "no such version of the strategy";
    case TRYST_PLACE_NO_NODES:
        return "no nodes";
    case TRYST_PLACE_TOO_MANY_NODES:
        return "more than 65535 nodes";
    case TRYST_PLACE_BAD_NAME:
        return "a name has 1 to 255 bytes";
    case TRYST_PLACE_DUPLICATE_NAME:
        return "the name is given twice";
    case TRYST_PLACE_BAD_WEIGHT:
        return "a weight is a number from 1/65536 to 65536";
    case TRYST_PLACE_WEIGHT_UNUSED:
        return "the strategy has no use for a weight";
    case TRYST_PLACE_BAD_ZONE:
        return "a zone has 1 to 8 levels, none of them empty, and at most 255 bytes";
    case TRYST_PLACE_ZONE_DEPTH:
        return "all zones must have the same number of levels";
    case TRYST_PLACE_ZONE_UNUSED:
        return "the strategy has no use for a zone";
    case TRYST_PLACE_BAD_SPREAD:
        return "the zones have no such level to spread over";
    case TRYST_PLACE_SPREAD_UNUSED:
        return "the strategy has no use for a level to spread over";
    case TRYST_PLACE_BAD_PARTITIONS:
        return "the number of partitions goes from 1 to 4294967296";
    case TRYST_PLACE_PARTITIONS_UNUSED:
        return "the strategy has no use for partitions";
    case TRYST_PLACE_BAD_POSITION:
        return "the position is outside the circle";
    case TRYST_PLACE_POSITION_TAKEN:
        return "another node has the same partition";
    case TRYST_PLACE_POSITION_UNUSED:
        return "the strategy has no use for a position";
    case TRYST_PLACE_NO_POSITION_LEFT:
        return "no partition is left for it";
    case TRYST_PLACE_TOO_MANY_POINTS:
        return "more than 16777216 points are asked for: scale all weights down, or give fewer "
               "positions";
    case TRYST_PLACE_BAD_FLAGS:
        return "the flags have bits that this version does not know";
    case TRYST_PLACE_MEMORY_TOO_SMALL:
        return "the memory is smaller than the map";
    }
    return "unknown status";
}
