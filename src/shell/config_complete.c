/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/config_complete.h"

#include "shell/say.h"
#include "wire/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX ((size_t)16 << 20)

#define KEY_BESIDE 4096 /* bytes of a key's entry in the log, beside key and value */

struct completion {
    struct tr_config *config;
    unsigned faults;
};

__attribute__((format(printf, 2, 3))) static void fault(struct completion *completion,
                                                        const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    tr_say(TR_ERROR, "configuration: %s", message);
    completion->faults++;
}

char *tr_config_read_whole(int file, size_t *size)
{
    struct stat info;
    if (fstat(file, &info) != 0 || (size_t)info.st_size > FILE_MAX)
        return NULL;
    char *text = malloc((size_t)info.st_size + 1);
    ssize_t got = text == NULL ? -1 : read(file, text, (size_t)info.st_size);
    if (got < 0) {
        free(text);
        return NULL;
    }
    *size = (size_t)got;
    return text;
}

void tr_config_complete_address(char address[TR_CONFIG_ADDRESS], unsigned port)
{
    const char *colon = strrchr(address, ':');
    bool is_bare_ipv6 = address[0] != '[' && colon != NULL && strchr(address, ':') != colon;
    bool has_port = colon != NULL && !is_bare_ipv6 && strchr(colon, ']') == NULL;
    char host[TR_CONFIG_ADDRESS];
    if (has_port)
        return;
    snprintf(host, sizeof host, "%s", address);
    snprintf(address, TR_CONFIG_ADDRESS, is_bare_ipv6 ? "[%.240s]:%u" : "%.240s:%u", host, port);
}

static void check_address(struct completion *completion, const char *address)
{
    const char *wrong = tr_address_fault((struct tr_span){address, strlen(address)});
    if (wrong != NULL)
        fault(completion, "[cluster] %s: %s", address, wrong);
}

static void complete_nodes(struct completion *completion)
{
    struct tr_config *config = completion->config;
    unsigned port = (unsigned)config->bind_port;
    if (config->localhost[0] == '\0') {
        bool is_any = strcmp(config->bind_address, "0.0.0.0") == 0;
        bool is_any_ipv6 = strcmp(config->bind_address, "::") == 0;
        snprintf(config->localhost, sizeof config->localhost, "%s",
                 is_any        ? "127.0.0.1"
                 : is_any_ipv6 ? "::1"
                               : config->bind_address);
    }
    tr_config_complete_address(config->localhost, port);
    if (config->node_count > 0) /* alone it may have any port that is free */
        check_address(completion, config->localhost);
    uint32_t leaving = 0;
    for (uint32_t i = 0; i < config->node_count; i++) {
        tr_config_complete_address(config->nodes[i].address, port);
        check_address(completion, config->nodes[i].address);
        leaving += config->nodes[i].role == TR_ROLE_LEAVING;
        for (uint32_t k = 0; k < i; k++) {
            if (strcmp(config->nodes[i].address, config->nodes[k].address) == 0)
                fault(completion, "[cluster] names %s twice", config->nodes[i].address);
        }
    }
    if (config->node_count > 0 && leaving == config->node_count)
        fault(completion, "[cluster] has nodes that leave and none that stays or joins");
}

static void read_secret(struct completion *completion)
{
    struct tr_config *config = completion->config;
    size_t size = 0;
    const char *from_environment = getenv("TRYST_CLUSTER_SECRET");
    struct stat status;
    if (config->secret_file[0] == '\0' || (from_environment != NULL && from_environment[0] != '\0'))
        return;
    int file = open(config->secret_file, O_RDONLY | O_CLOEXEC);
    if (file >= 0 && fstat(file, &status) == 0 && (status.st_mode & S_IROTH) != 0)
        tr_say(TR_WARNING, "[cluster] secret-file %s can be read by everybody: chmod o-r it",
               config->secret_file);
    char *text = file < 0 ? NULL : tr_config_read_whole(file, &size);
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    if (text == NULL)
        fault(completion, "[cluster] secret-file %s: %s", config->secret_file, strerror(errno));
    else if (size < 8 || size >= TR_CONFIG_TEXT || memchr(text, '\0', size) != NULL)
        fault(completion, "[cluster] secret-file %s must hold a text of 8 to %d bytes",
              config->secret_file, TR_CONFIG_TEXT - 1);
    else
        snprintf(config->secret, sizeof config->secret, "%.*s", (int)size, text);
    free(text);
    if (file >= 0)
        close(file);
}

static void read_webhook(struct completion *completion, struct tr_config_webhook *webhook)
{
    size_t size = 0;
    int file = open(webhook->file, O_RDONLY | O_CLOEXEC);
    char *text = file < 0 ? NULL : tr_config_read_whole(file, &size);
    if (text == NULL) {
        fault(completion, "[webhook] secret-file %s: %s", webhook->file, strerror(errno));
    } else {
        const char *wrong = tr_webhook_parse((struct tr_span){text, size}, &webhook->keys);
        if (wrong != NULL)
            fault(completion, "[webhook] secret-file %s %s", webhook->file, wrong);
        OPENSSL_cleanse(text, size);
    }
    free(text);
    if (file >= 0)
        close(file);
}

/* Whoever gives a certificate wants it used. */
static void complete_tls(struct completion *completion)
{
    struct tr_config *config = completion->config;
    bool has_cert = config->tls_cert[0] != '\0';
    if (has_cert != (config->tls_key[0] != '\0'))
        fault(completion, "[tls] cert and key belong together: one of them is missing");
    if (has_cert && !config->has_tls_clients)
        config->tls_clients = TR_TLS_TAKEN;
    if (!has_cert && (config->tls_clients != TR_TLS_OFF || config->tls_peers != TR_TLS_OFF))
        fault(completion, "[tls] clients and peers need cert and key");
    if (config->tls_clients != TR_TLS_OFF && config->node_count > 1 && config->tls_ca[0] == '\0')
        fault(completion,
              "[tls] clients in a cluster needs client-ca: nodes ask each other for parts "
              "of listings, and check each other by it");
    if (config->tls_peers != TR_TLS_OFF && config->tls_ca[0] == '\0')
        fault(completion, "[tls] peers needs client-ca: by it nodes check each other");
}

static void check(struct completion *completion)
{
    struct tr_config *config = completion->config;
    for (uint32_t i = 0; i < config->webhook_count; i++)
        read_webhook(completion, &config->webhooks[i]);
    config->has_disk = strcmp(config->data_dir, "none") != 0;
    uint8_t address[16];
    if (inet_pton(AF_INET, config->bind_address, address) != 1 &&
        inet_pton(AF_INET6, config->bind_address, address) != 1)
        fault(completion, "[http] bind-address %s is no IP address", config->bind_address);
    if (config->resp_port != 0 && (!config->has_resp || config->resp_port == config->bind_port))
        fault(completion, config->has_resp
                              ? "[resp] bind-port is [http] bind-port, where RESP is spoken anyway"
                              : "[resp] bind-port is of no use with [resp] enabled = no");
    if (config->ca_file[0] != '\0' && access(config->ca_file, R_OK) != 0)
        fault(completion, "[callback] ca-file %s: %s", config->ca_file, strerror(errno));
    if (config->log_folder[0] != '\0' && access(config->log_folder, W_OK) != 0)
        fault(completion, "[logging] folder %s: %s", config->log_folder, strerror(errno));
    if (config->segment_size < 8 * config->opaque_max + 65536)
        fault(completion,
              "[storage] segment-size must be at least 8 times [limits] opaque plus 64K");
    /* A batch is a quarter of a segment, and clients may fill three quarters of it. */
    uint64_t most = config->segment_size / 16 * 3 - TR_KEY_MAX - KEY_BESIDE;
    if (config->value_max == 0)
        config->value_max = most < TR_CONFIG_VALUE ? most : TR_CONFIG_VALUE;
    if (config->value_max > most)
        fault(completion, "[limits] value must be at most three sixteenths of [storage] "
                          "segment-size, less 68K");
    if (config->body_max < config->opaque_max)
        fault(completion, "[limits] body must not be less than [limits] opaque");
    complete_nodes(completion);
    read_secret(completion);
    complete_tls(completion);
    if (completion->config->tokens_file[0] != '\0' && completion->config->node_count > 1 &&
        completion->config->secret[0] == '\0')
        fault(completion,
              "[auth] tokens-file in a cluster needs [cluster] secret-file: by it nodes "
              "know each other when they ask for parts of a listing");
}

unsigned tr_config_complete(struct tr_config *config)
{
    struct completion completion = {.config = config};
    check(&completion);
    return completion.faults;
}
