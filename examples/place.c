/* SPDX-License-Identifier: Apache-2.0 */
/* Which two of three nodes hold a key?   cc place.c $(pkg-config --cflags --libs tryst-place) &&
 * ./a.out order-17 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tryst/place.h>

int main(int argc, char **argv)
{
    const char *key = argc > 1 ? argv[1] : "order-17";
    struct tryst_place_node nodes[] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct tryst_place_config config = {.strategy = "rendezvous"};
    size_t size = tryst_place_map_size(&config, nodes, 3);
    struct tryst_place_map *map = malloc(size);
    enum tryst_place_status status = TRYST_PLACE_MEMORY_TOO_SMALL;
    if (map != NULL)
        status = tryst_place_map_init(map, size, &config, nodes, 3, NULL);
    if (status != TRYST_PLACE_OK) {
        fprintf(stderr, "%s\n", tryst_place_status_text(status));
        return 1;
    }
    uint32_t holders[2];
    size_t count =
        tryst_place_lookup(map, tryst_place_key_of_text(map, key, strlen(key)), 2, holders, NULL);
    printf("%s", key);
    for (size_t i = 0; i < count; i++)
        printf("\t%s", nodes[holders[i]].name);
    printf("\n");
    free(map);
    return 0;
}
