/* SPDX-License-Identifier: Apache-2.0 */
/* `trystd`: reads the command line and the configuration, and runs the daemon. */
#include "shell/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

#define FILES_PEERS 320 /* links to other nodes, and those that have proven nothing yet */
#define FILES_OWN   64  /* that are no connection: the log, the loop, names being looked up */
#define FILES_LEAST 256

#ifndef TRYST_VERSION
#define TRYST_VERSION "unknown"
#endif

enum option_id {
    OPTION_CONFIG = 256,
    OPTION_CHECK,
    OPTION_DATA_DIR,
    OPTION_LISTEN,
    OPTION_LOCAL,
    OPTION_CLUSTER,
    OPTION_SHARED,
    OPTION_DNS,
    OPTION_TEST_CLOCK,
    OPTION_PIDFILE,
    OPTION_DAEMON,
    OPTION_VERSION,
};

struct arguments {
    struct tr_config_sources sources;
    const char *pidfile;
    bool is_daemon;
    bool checks_only;
};

static const struct option options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"check-config", no_argument, NULL, OPTION_CHECK},
    {"data-dir", required_argument, NULL, OPTION_DATA_DIR},
    {"listen", required_argument, NULL, OPTION_LISTEN},
    {"local-config-file", required_argument, NULL, OPTION_LOCAL},
    {"cluster-config-file", required_argument, NULL, OPTION_CLUSTER},
    {"shared-config-file", required_argument, NULL, OPTION_SHARED},
    {"dns-config-file", required_argument, NULL, OPTION_DNS},
    {"test-clock", no_argument, NULL, OPTION_TEST_CLOCK},
    {"pidfile", required_argument, NULL, OPTION_PIDFILE},
    {"daemon", no_argument, NULL, OPTION_DAEMON},
    {"version", no_argument, NULL, OPTION_VERSION},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void print_help(void)
{
    fputs(
        "usage: trystd [OPTION]...\n"
        "\n"
        "Keeps timers and calls their URIs when they are due. Without options: a node on\n"
        "127.0.0.1:7253 with its data in ./tryst-data and its log on standard error.\n"
        "\n"
        "  --config FILE               read this file; tryst.conf(5) tells what may stand in it\n"
        "  --check-config              read the configuration, say what is wrong, and stop\n"
        "  --data-dir DIR              keep data here; 'none' keeps all in memory\n"
        "  --listen HOST:PORT          serve on this address\n"
        "  --test-clock                time stands still, and tests move it: POST /clock/advance\n"
        "  --pidfile FILE              write the process's number to FILE\n"
        "  --daemon                    run in the background\n"
        "  --version, --help\n"
        "\n"
        "As Chronos has them (its defaults hold then, such as serving on all addresses):\n"
        "\n"
        "  --local-config-file FILE    /etc/chronos/chronos.conf\n"
        "  --cluster-config-file FILE  /etc/chronos/chronos_cluster.conf\n"
        "  --shared-config-file FILE   /etc/chronos/chronos_shared.conf\n"
        "\n"
        "Signals: HUP reads the configuration again; USR1 brings every timer to where it belongs\n"
        "and says so; TERM and INT finish what is under way and stop.\n"
        "Environment: TRYST_<SECTION>_<KEY> overrides a key. More: trystd(8).\n",
        stdout);
}

/* The exit status, or -1 to go on. */
static int read_arguments(int argc, char **argv, struct arguments *out)
{
    struct tr_config_sources *sources = &out->sources;
    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case OPTION_CONFIG:
            sources->config_file = optarg;
            break;
        case OPTION_CHECK:
            out->checks_only = true;
            break;
        case OPTION_DATA_DIR:
            sources->data_dir = optarg;
            break;
        case OPTION_LISTEN:
            sources->listen = optarg;
            break;
        case OPTION_LOCAL:
            sources->local_file = optarg;
            sources->is_original = true;
            break;
        case OPTION_CLUSTER:
            sources->cluster_file = optarg;
            sources->is_original = true;
            break;
        case OPTION_SHARED:
            sources->shared_file = optarg;
            sources->is_original = true;
            break;
        case OPTION_DNS:
            tr_say(TR_STATUS, "--dns-config-file means nothing here, and is ignored");
            break;
        case OPTION_TEST_CLOCK:
            sources->has_test_clock = true;
            break;
        case OPTION_PIDFILE:
            out->pidfile = optarg;
            break;
        case OPTION_DAEMON:
            out->is_daemon = true;
            break;
        case OPTION_VERSION:
            puts("trystd " TRYST_VERSION);
            return 0;
        case 'h':
            print_help();
            return 0;
        default:
            fputs("trystd: 'trystd --help' lists the options\n", stderr);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "trystd: takes no operand such as %s; 'trystd --help' lists the options\n",
                argv[optind]);
        return 2;
    }
    return -1;
}

static void set_original_paths(struct tr_config_sources *sources)
{
    if (!sources->is_original)
        return;
    if (sources->local_file == NULL)
        sources->local_file = "/etc/chronos/chronos.conf";
    if (sources->cluster_file == NULL)
        sources->cluster_file = "/etc/chronos/chronos_cluster.conf";
    if (sources->shared_file == NULL)
        sources->shared_file = "/etc/chronos/chronos_shared.conf";
}

/* As many files as the system lets us have: connections and callbacks are files. The log must never
 * lack one, so what the two may take together stays below the limit. */
static bool share_files(struct tr_config *config)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return true;
    rlim_t before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    if (before < limit.rlim_max && setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        tr_say(TR_WARNING, "cannot raise the limit of open files: %s", strerror(errno));
        limit.rlim_cur = before;
    }
    if (limit.rlim_cur < FILES_LEAST) {
        tr_say(TR_ERROR,
               "at most %llu files may be open, too few to start: raise the limit to %u "
               "or more (ulimit -n, LimitNOFILE=)",
               (unsigned long long)limit.rlim_cur, FILES_LEAST);
        return false;
    }
    uint64_t files = limit.rlim_cur - FILES_OWN;
    files -= files / 8 < FILES_PEERS ? files / 8 : FILES_PEERS;
    uint64_t calls = 2 * config->flights < files / 4 ? 2 * config->flights : files / 4;
    config->flights = calls / 2;
    if (config->connections_max > files - calls)
        config->connections_max = files - calls;
    tr_say(TR_INFO, "of %llu files, %llu may be connections of clients and %llu callbacks",
           (unsigned long long)limit.rlim_cur, (unsigned long long)config->connections_max,
           (unsigned long long)config->flights);
    return true;
}

/* The parent stays until the child is ready, and ends with 1 if it never is. Until then the child
 * has its standard error. */
static bool go_to_background(int *ready_file)
{
    int ends[2];
    char byte;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return false;
    pid_t child = fork();
    if (child < 0)
        return false;
    if (child > 0) {
        close(ends[1]);
        _exit(read(ends[0], &byte, 1) == 1 ? 0 : 1);
    }
    close(ends[0]);
    *ready_file = ends[1];
    setsid();
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0)
        return false;
    dup2(nowhere, 0);
    dup2(nowhere, 1);
    return true;
}

/* The lock is the file's own; it is kept open as long as the process lives. */
static bool write_pidfile(const char *path)
{
    char text[32];
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (file < 0) {
        tr_say(TR_ERROR, "cannot write the pidfile %s: %s", path, strerror(errno));
        return false;
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        tr_say(TR_ERROR, "another process holds the pidfile %s", path);
        return false;
    }
    int size = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    return ftruncate(file, 0) == 0 && write(file, text, (size_t)size) == size;
}

/* False: it has said why not. */
static bool can_check_receivers(const struct tr_config *config)
{
    if (config->ca_file[0] != '\0' && access(config->ca_file, R_OK) != 0)
        return true; /* that is a fault of the configuration, and was said as one */
    struct tr_tls_context *context = tr_tls_context_new(config->ca_file);
    tr_tls_context_free(context);
    return context != NULL;
}

/* What is read at a start, and can be wrong, is read here, too. */
static int check(const struct tr_config *config, unsigned faults)
{
    struct tr_auth auth;
    struct tr_certificates certificates;
    faults += tr_auth_load(&auth, config) + tr_certificates_load(&certificates, config, false);
    faults += !can_check_receivers(config);
    if (faults > 0)
        return 2;
    tr_certificates_watch(&certificates, tr_clock_us(CLOCK_REALTIME) / 1000000);
    if (!tr_config_names_itself(config))
        tr_say(TR_WARNING,
               "[cluster] does not name this node, %s: it would hand its timers over to the "
               "others; is 'localhost' missing?",
               config->localhost);
    puts("the configuration is good");
    tr_auth_free(&auth);
    tr_certificates_free(&certificates);
    return 0;
}

int main(int argc, char **argv)
{
    struct arguments arguments = {0};
    struct tr_config config;
    int status = read_arguments(argc, argv, &arguments);
    if (status >= 0)
        return status;
    if (arguments.sources.is_original && arguments.sources.config_file != NULL) {
        fputs("trystd: --config is one file for everything; it does not go with the original's "
              "three\n",
              stderr);
        return 2;
    }
    set_original_paths(&arguments.sources);
    unsigned faults = tr_config_load(&config, &arguments.sources);
    if (arguments.checks_only)
        return check(&config, faults);
    if (faults > 0)
        return 2;
    bool has_folder = config.log_folder[0] != '\0';
    if (!tr_say_setup((enum tr_level)config.log_level, config.log_json,
                      has_folder ? config.log_folder : NULL)) {
        tr_say(TR_ERROR, "cannot write to [logging] folder %s", config.log_folder);
        return 2;
    }
    if (!share_files(&config))
        return 1;
    setenv("UV_THREADPOOL_SIZE", "16", 0); /* names that hang must not hold up the others */
    if (arguments.is_daemon && !go_to_background(&arguments.sources.ready_file)) {
        tr_say(TR_ERROR, "cannot go to the background: %s", strerror(errno));
        return 1;
    }
    if (arguments.pidfile != NULL && !write_pidfile(arguments.pidfile))
        return 2;
    status = tr_daemon_run(&config, &arguments.sources);
    if (arguments.pidfile != NULL)
        unlink(arguments.pidfile);
    /* Not exit(): libuv would wait there for names that are still being looked up. */
    fflush(NULL);
    _exit(status);
}
