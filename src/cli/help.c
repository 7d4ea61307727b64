/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <string.h>

static const char general[] =
    "tryst keeps appointments: timers that call a URI when they are due, and where keys live.\n"
    "\n"
    "usage: tryst COMMAND [OPTION]...\n"
    "\n"
    "  timer      set, show, cancel and list timers on a node\n"
    "  status     how a node is\n"
    "  cluster    how a cluster is, and which nodes it has\n"
    "  bench      how fast a node takes timers\n"
    "  receive    print what pops, for trying things out\n"
    "  log        look at a stopped node's data, or repair it\n"
    "  place      where keys live: a line per key, its nodes in order\n"
    "  plan       what adding or removing nodes would move, before anyone moves anything\n"
    "  keyspace   the ring that nodes make, and how even their shares are\n"
    "  token      make a token, for nodes that want one\n"
    "  import     the timers of a cluster of Chronos\n"
    "  backup     every key and timer of a cluster in a file, and back\n"
    "  pops       what became of the last pops\n"
    "  clock      move the time of a node under test\n"
    "  cron       when a cron expression is due next\n"
    "  help       help on a command: tryst help place\n"
    "\n"
    "  --token-file FILE  of any command: shows nodes the token in it (TRYST_TOKEN_FILE)\n"
    "  --ca FILE          of any command: asks nodes by TLS, and checks them by FILE (TRYST_CA)\n"
    "  --help     this text\n"
    "  --version  the version\n"
    "\n"
    "Try:  tryst timer add --in 30s --to http://127.0.0.1:9000/ \"time is up\"\n"
    "      tryst place --node a --node b --node c order-17 order-18\n"
    "      tryst plan --node a --node b --node c --add d --svg plan.svg\n";

static const char timer[] =
    "usage: tryst timer add WHEN --to URI [OPTION]... [TEXT]\n"
    "       tryst timer set NAME WHEN --to URI [OPTION]... [TEXT]\n"
    "       tryst timer get|cancel|fire|redrive|where [--named] ID...\n"
    "       tryst timer cancel|redrive --tag TAG | --name-prefix TEXT | --all [--dry-run]\n"
    "       tryst timer ls [--dead] [--tag TAG] [--name-prefix TEXT] [--cluster]\n"
    "\n"
    "Sets, shows, cancels and lists timers. When a timer is due, its node POSTs TEXT to the URI.\n"
    "add makes a new one, set the one of that name, in place of an earlier one. fire makes the\n"
    "next pop now. Durations are seconds, or end in ms, s, m, h, d or w: 30, 1.5s, 1h30m.\n"
    "\n"
    "  --in DURATION          WHEN: so long from now\n"
    "  --at INSTANT           WHEN: as 2026-11-19T08:30:00Z; with --in: and then every --in\n"
    "  --cron EXPRESSION      WHEN: as '0 9 * * MON-FRI'; tryst cron shows what one means\n"
    "  --zone ZONE            of --cron: by these clocks, as Europe/Berlin (UTC)\n"
    "  --to URI               whom it calls, http:// or https://\n"
    "  --repeat-for DURATION  pop again every --in, until this long from now, or forever\n"
    "  --count N              pop so often\n"
    "  --until INSTANT        no pop after it\n"
    "  --missed WHICH         of pops that nobody could make: all, last or none\n"
    "  --jitter DURATION      each pop is later by a part of it\n"
    "  --method METHOD        POST, PUT, PATCH, GET or DELETE\n"
    "  --header LINE          'Name: value', also several\n"
    "  --timeout DURATION     of a call, up to 60s\n"
    "  --tag TAG              count it under TAG, also several; of ls and others: only these\n"
    "  --replicas N           nodes that hold it (2)\n"
    "  --key KEY              an idempotency key, for sending the same request again: it makes\n"
    "                         the same timer, once\n"
    "  --content-type TYPE    of TEXT (text/plain; charset=utf-8)\n"
    "  --named                operands are names, not ids\n"
    "  --name-prefix TEXT     timers whose names begin so\n"
    "  --all                  every timer of the cluster\n"
    "  --dry-run              say how many, and do nothing\n"
    "  --must-exist           cancel: end with 1 if there is no such timer\n"
    "  --dead                 ls: pops whose attempts are spent; redrive tries them again\n"
    "  --cluster              ls: of the whole cluster, not of this node alone\n"
    "  --node HOST:PORT       the node, or several, parted by commas: the first that answers\n"
    "                         (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "  --json                 JSON instead of text, as the node gives it\n"
    "\n"
    "TEXT of - is standard input. ls sorts by what is next.\n";

static const char pops[] =
    "usage: tryst pops [--follow] [OPTION]...\n"
    "\n"
    "Shows the last pops of a cluster, and what became of them.\n"
    "\n"
    "  --follow          go on with those that come\n"
    "  --limit N         so many, 1 to 1000 (20)\n"
    "  --state STATE     delivered, failed or dead\n"
    "  --node HOST:PORT  a node of the cluster (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "  --json            JSON, an object a line\n";

static const char clock_help[] =
    "usage: tryst clock [show | advance DURATION|INSTANT | run | stop]\n"
    "\n"
    "The time of a node that was started with trystd --test-clock: shows it, moves it with all\n"
    "pops that fall due on the way, lets it go by itself, and stops it again.\n"
    "\n"
    "  --node HOST:PORT  the node (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "\n"
    "Example:  tryst clock advance 15m\n";

static const char status[] =
    "usage: tryst status [--node HOST:PORT] [--json]\n"
    "\n"
    "Tells how a node is: what it holds, what it delivered and how late, its log and memory.\n"
    "Ends with 0 if the node is ready, with 1 if it is not or cannot be reached.\n"
    "\n"
    "  --node HOST:PORT  the node (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "  --json            JSON instead of text\n";

static const char cluster[] =
    "usage: tryst cluster status [--node HOST:PORT] [--watch] [--json]\n"
    "       tryst cluster join|leave HOST:PORT... [OPTION]...\n"
    "       tryst cluster apply FILE [OPTION]...\n"
    "       tryst cluster resync [--node HOST:PORT]\n"
    "\n"
    "status asks every node: its state, version and uptime, what it holds, its memory, log and "
    "disk,\n"
    "how long ago the others heard it, how far its clock is off, and what is pending for whom.\n"
    "Columns that are 0 on all nodes are left out. Ends with 1 unless all are up and agree, and\n"
    "no change is under way.\n"
    "\n"
    "join and leave change which nodes the cluster has; apply makes it what FILE says, a "
    "[cluster]\n"
    "section with 'node = HOST:PORT' lines. They show what would move, ask the cluster for the\n"
    "change, and watch it. The cluster carries it through by itself: interrupted, the change goes\n"
    "on, and they may be run again to watch it. leave of a node that joins, and join of one that "
    "leaves, take that back.\n"
    "\n"
    "resync has every node bring its timers to where they belong, which they do by themselves "
    "when\n"
    "something changes; the log of each tells how it went.\n"
    "\n"
    "  --node HOST:PORT    any node of the cluster, or several, parted by commas: the first that\n"
    "                      answers (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253; apply: or one of\n"
    "                      the file's)\n"
    "  --watch             status: again each second, until it is ended\n"
    "  --secret-file FILE  the cluster's secret (TRYST_CLUSTER_SECRET)\n"
    "  --dry-run           show what would move, and stop\n"
    "  --yes               do not ask; wanted where there is no terminal to ask on\n"
    "  --force             nodes that are down and shall not stay are lost\n"
    "  --json              status: JSON instead of text\n";

static const char bench[] =
    "usage: tryst bench [OPTION]...\n"
    "\n"
    "Sets timers on a node as fast as it takes them, then cancels them, and says how fast it was.\n"
    "They are due in a day and tagged tryst-bench, so none pops meanwhile.\n"
    "\n"
    "  --timers N         how many (20000)\n"
    "  --connections N    at once (64)\n"
    "  --node HOST:PORT   the node (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "  --json             JSON instead of text\n";

static const char receive[] =
    "usage: tryst receive [HOST:PORT] [OPTION]...\n"
    "\n"
    "Listens (on 127.0.0.1:9000), prints a line for each pop that comes, and answers 200.\n"
    "For trying things out: set a timer with --to http://127.0.0.1:9000/ and watch.\n"
    "\n"
    "  --count N           end after N pops\n"
    "  --status N          answer this instead of 200\n"
    "  --delay DURATION    take so long to answer\n"
    "  --secret-file FILE  check signatures with these secrets, and answer 401 to bad ones\n";

static const char log_help[] =
    "usage: tryst log check|dump|repair DIR\n"
    "\n"
    "Looks at the data directory of a node that is stopped.\n"
    "\n"
    "  check   whether it is sound; ends with 1 if it is not\n"
    "  dump    everything in it, one entry a line\n"
    "  repair  keep what is sound of a damaged log, under a new store id; the files as they\n"
    "          were stay, with .damaged behind their names\n";

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
    "  --per-node N      keyspace: positions of a node that gives none, 1 to 4096 (16; 1 if\n"    \
    "                    there are less than 1024 partitions)\n"                                  \
    "  --node NODE       a node, NAME[,weight=W][,zone=A/B][,at=P]; once for each node.\n"        \
    "                    W: a decimal from 1/65536 to 65536 (1). P: a position in [0,1) of\n"     \
    "                    keyspace (without one, positions are chosen so that shares are even)\n"
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

static const char keyspace[] =
    "usage: tryst keyspace [--cluster HOST:PORT] [OPTION]...\n"
    "       tryst keyspace [OPTION]... --node NODE...\n"
    "\n"
    "Shows the ring of a keyspace: the positions of each node, the partitions that it owns, its\n"
    "share of the keys, and of their copies: that of a cluster that runs, as a node of it tells\n"
    "(TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253), or the one that nodes would make, which take "
    "their "
    "positions\n"
    "in the order given.\n"
    "\n"
    "  --cluster ADDRESS a node of the cluster\n"
    "  --partitions P    partitions of the circle, 1 to 4294967296 (1024)\n"
    "  --replicas K      nodes per key, the size of a preference list (2)\n"
    "  --per-node N      positions of a node that gives none, 1 to 4096 (16; 1 if there are less\n"
    "                    than 1024 partitions)\n"
    "  --node NODE       a node, NAME[,at=P]; P: a position in [0,1). Without one, positions are\n"
    "                    chosen so that shares are even\n"
    "  --ring            all positions, too, in the order of the ring\n"
    "  --svg FILE        also draw it\n"
    "  --json            JSON instead of the table\n"
    "\n"
    "Example:  tryst keyspace --node a --node b --node c --svg ring.svg\n";

static const char backup[] =
    "usage: tryst backup create FILE [--node HOST:PORT]\n"
    "       tryst backup inspect FILE\n"
    "       tryst backup restore FILE [--merge] [--node HOST:PORT]\n"
    "\n"
    "Makes a file of every key and every timer of a cluster that runs, as new as they are from "
    "the\n"
    "beginning on; shows what is in such a file, and whether it is sound; and puts it into a\n"
    "cluster, of any size and keyspace. Timers go on where they were: what was due meanwhile pops\n"
    "at once. A cluster that is not empty is refused, unless what is newer there is to stay:\n"
    "\n"
    "  --merge           restore into what is there: what is newer stays\n"
    "  --node HOST:PORT  a node of the cluster (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "\n"
    "Example:  tryst backup create tonight.tryst && tryst backup inspect tonight.tryst\n";

static const char token_help[] =
    "usage: tryst token new NAME --scope SCOPE... --tokens-file FILE\n"
    "\n"
    "Makes a token: a line with its hash is added to FILE, which nodes have as [auth] "
    "tokens-file,\n"
    "and the token itself is printed, this once. Nodes read the file anew at SIGHUP; to revoke a\n"
    "token, take its line out.\n"
    "\n"
    "  --scope SCOPE        read, write or admin; several\n"
    "                       tag:TAG, prefix:TEXT  only timers of that tag, or so named\n"
    "                       keys:TEXT             only keys that begin so\n"
    "                       rate=100/s            as many requests a second\n"
    "                       pending=10000         as many timers of its tags\n"
    "  --tokens-file FILE   made if it is not there\n"
    "\n"
    "Example:  tryst token new shop --scope write,tag:shop --tokens-file /etc/tryst/tokens\n";

static const char import_help[] =
    "usage: tryst import chronos --from HOST:PORT,... [--to HOST:PORT] [OPTION]...\n"
    "\n"
    "Fetches the timers of a running cluster of Chronos, as its nodes tell each other of them, "
    "and\n"
    "sets them here, under the same ids, due when they are due there. All nodes are asked, and of\n"
    "the copies of a timer the one that has popped most is taken. Run again, it goes on: what is\n"
    "here stays, unless it has popped more there. While both clusters run, both pop.\n"
    "\n"
    "  --from HOST:PORT,...  all nodes of the cluster of Chronos, staying and joining, by the\n"
    "                        addresses that its configuration has\n"
    "  --to HOST:PORT        a node here (TRYST_NODES, TRYST_NODE, or 127.0.0.1:7253)\n"
    "  --view ID             its cluster-view-id, if it is not the one that follows from --from\n"
    "  --dry-run             say how many there are, and set none\n"
    "\n"
    "Example:  tryst import chronos --from 10.0.0.1,10.0.0.2 --to 10.0.1.1:7253\n";

static const char cron[] =
    "usage: tryst cron [OPTION]... EXPRESSION\n"
    "\n"
    "Shows when a cron expression is due next, in UTC and by the clocks of a zone. It has five\n"
    "fields (minute, hour, day, month, weekday), or six with seconds first, as crontab(5) has\n"
    "them, or is @yearly, @monthly, @weekly, @daily or @hourly.\n"
    "\n"
    "  --zone ZONE       a time zone, as Europe/Berlin (UTC)\n"
    "  --from INSTANT    after this one, as 2026-11-19T08:30:00Z (now)\n"
    "  --count N         so many, 1 to 10000 (5)\n"
    "  --gap WHAT        a time that a day does not have: after the gap, or skip (after)\n"
    "  --overlap WHICH   of a time that a day has twice: first, last or both (first)\n"
    "  -                 expressions from standard input, one a line\n"
    "\n"
    "Example:  tryst cron --zone Europe/Berlin '30 2 * * *'\n";

bool tr_help_print(FILE *out, const char *command)
{
    static const struct {
        const char *command;
        const char *text;
    } texts[] = {
        {"timer", timer},      {"status", status},      {"bench", bench},
        {"log", log_help},     {"receive", receive},    {"place", place},
        {"plan", plan},        {"cluster", cluster},    {"keyspace", keyspace},
        {"backup", backup},    {"cron", cron},          {"pops", pops},
        {"clock", clock_help}, {"import", import_help}, {"token", token_help},
    };
    if (command == NULL) {
        fputs(general, out);
        return true;
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(command, texts[i].command) == 0) {
            fputs(texts[i].text, out);
            return true;
        }
    }
    return false;
}
