/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <string.h>

static const char general[] =
    "tryst keeps appointments: which nodes hold a key, and what moves when nodes come and go.\n"
    "\n"
    "usage: tryst COMMAND [OPTION]...\n"
    "\n"
    "  place      where keys live: a line per key, its nodes in order\n"
    "  plan       what adding or removing nodes would move, before anyone moves anything\n"
    "  help       help on a command: tryst help place\n"
    "\n"
    "  --help     this text\n"
    "  --version  the version\n"
    "\n"
    "Try:  tryst place --node a --node b --node c order-17 order-18\n"
    "      tryst plan --node a --node b --node c --add d --svg plan.svg\n";

/* clang-format off */
#define CLUSTER_HELP                                                                              \
    "  --strategy S      how keys are placed, with a version if you like (rendezvous@1):\n"       \
    "                      rendezvous  highest random weight, the default; takes weights\n"       \
    "                      crush       by zones, replicas in distinct ones; weights and zones\n"  \
    "                      skeleton    rendezvous by levels, for thousands of nodes; weights\n"   \
    "                      ring        consistent hashing; weights\n"                             \
    "                      virtual     rendezvous with virtual locations; weights\n"              \
    "                      carp        rendezvous with CARP's load factors; weights\n"            \
    "                      chronos     the hashing of the Chronos timer service\n"                \
    "                      keyspace    a ring of fixed partitions; positions\n"                   \
    "  --replicas K      nodes per key (2); all of them if there are fewer\n"                     \
    "  --levels A,B      crush: names of the zones' levels, outermost first\n"                    \
    "  --spread LEVEL    crush: no two replicas in one zone of this level while there are\n"      \
    "                    enough; a name from --levels or its number from 1 (the outermost)\n"     \
    "  --partitions P    keyspace: partitions of the circle, 1 to 4294967296 (1024)\n"            \
    "  --node NODE       a node, NAME[,weight=W][,zone=A/B][,at=P]; once for each node.\n"        \
    "                    W: a decimal from 1/65536 to 65536 (1). P: a position in [0,1) (the\n"   \
    "                    middle of the widest gap between the nodes before it)\n"
/* clang-format on */

static const char place[] =
    "usage: tryst place [OPTION]... --node NODE... KEY...\n"
    "\n"
    "Prints a line for each key: the key and the nodes that hold it, in order, with tabs between.\n"
    "\n" CLUSTER_HELP "  --ids             keys are 64-bit ids in hexadecimal\n"
    "  --positions       keys are positions in [0,1) on the circle of ring or keyspace\n"
    "  --json            one JSON document instead\n"
    "  -                 keys from standard input, one a line\n"
    "  --                what follows are keys, also if they begin with -\n"
    "\n"
    "Example:  tryst place --strategy crush --levels region,rack --spread region \\\n"
    "              --node a,zone=eu/r1 --node b,zone=eu/r2 --node c,zone=us/r1,weight=2 order-17\n";

static const char plan[] =
    "usage: tryst plan [OPTION]... --node NODE... [--add NODE]... [--remove NAME]...\n"
    "\n"
    "Looks up sample keys before and after a change: each node's share, what moves from where to\n"
    "where (primaries, and copies in all), and the least that could have moved.\n"
    "A node that is removed and added again with another weight is one that changes.\n"
    "\n" CLUSTER_HELP "  --add NODE        a node that joins\n"
    "  --remove NAME     a node that leaves\n"
    "  --keys N          sample keys (100000)\n"
    "  --svg FILE        also draw it\n"
    "  --json            JSON instead of the table\n"
    "\n"
    "Example:  tryst plan --node a --node b --node c --add d --remove a --svg plan.svg\n";

bool tr_help_print(FILE *out, const char *command)
{
    const char *text = command == NULL                 ? general
                       : strcmp(command, "place") == 0 ? place
                       : strcmp(command, "plan") == 0  ? plan
                                                       : NULL;
    if (text == NULL)
        return false;
    fputs(text, out);
    return true;
}
