/* SPDX-License-Identifier: Apache-2.0 */
/* INI text: every line is a value, a fault or nothing. */
#include "base/assert.h"
#include "wire/ini.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1);
    struct tr_ini ini;
    enum tr_ini_step step;
    if (size > 0)
        memcpy(copy, data, size);
    tr_ini_init(&ini, (struct tr_span){copy, size});
    unsigned last = 0;
    while ((step = tr_ini_next(&ini)) != TR_INI_END) {
        TR_ASSERT(ini.line > last && ini.line <= size + 1);
        last = ini.line;
        if (step == TR_INI_VALUE)
            TR_ASSERT(ini.key.size > 0 && ini.section.size > 0);
        else
            TR_ASSERT(ini.fault != NULL);
    }
    free(copy);
    return 0;
}
