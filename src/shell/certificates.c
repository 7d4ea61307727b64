/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/certificates.h"

#include "shell/say.h"
#include "wire/address.h"

#include <string.h>
#include <time.h>

#define DAY_S      86400u
#define DAYS_SAID  14u
#define NEVER_SAID UINT64_MAX

static bool has_expired(const struct tr_certificates *certificates)
{
    return (uint64_t)time(NULL) >= certificates->expires_s;
}

/* By links, or since nodes ask each other for parts of listings as clients do. */
static bool is_for_nodes(const struct tr_config *config)
{
    return config->tls_peers != TR_TLS_OFF ||
           (config->tls_clients != TR_TLS_OFF && config->node_count > 1);
}

static bool bears_own_address(const struct tr_certificates *certificates,
                              const struct tr_config *config, char host[TR_HOST_MAX])
{
    uint16_t port = 0;
    struct tr_span name = {config->localhost, strlen(config->localhost)};
    return !is_for_nodes(config) || tr_address_split(name, host, &port) != NULL ||
           tr_tls_context_bears(certificates->client, host);
}

/* What others will hold against it. Returns how much of that cannot be meant. */
static unsigned say_doubts(const struct tr_certificates *certificates,
                           const struct tr_config *config, enum tr_level level)
{
    char host[TR_HOST_MAX];
    unsigned doubts = 0;
    bool is_over = has_expired(certificates);
    const char *doubt =
        is_for_nodes(config) && !is_over ? tr_tls_context_doubt(certificates->client) : NULL;
    if (doubt != NULL)
        tr_say(TR_WARNING, "[tls] cert %s is refused by nodes that check it by %s: %s",
               config->tls_cert, config->tls_ca, doubt);
    if (is_over) {
        tr_say(level, "[tls] cert %s has expired: clients and nodes that check it refuse this one",
               config->tls_cert);
        doubts++;
    }
    if (!bears_own_address(certificates, config, host)) {
        tr_say(level,
               "[tls] cert %s does not bear %s, by which other nodes know this one: they refuse "
               "it; make one with that as subjectAltName",
               config->tls_cert, host);
        doubts++;
    }
    return doubts;
}

unsigned tr_certificates_load(struct tr_certificates *certificates, const struct tr_config *config,
                              bool is_start)
{
    struct tr_tls_files files = {config->tls_cert, config->tls_key, config->tls_ca};
    *certificates = (struct tr_certificates){.said_days = NEVER_SAID};
    if (config->tls_cert[0] == '\0' || config->tls_key[0] == '\0')
        return 0; /* one without the other is a fault of the configuration */
    certificates->server = tr_tls_context_server(&files);
    certificates->client = certificates->server == NULL ? NULL : tr_tls_context_client(&files);
    if (certificates->client == NULL) {
        tr_certificates_free(certificates);
        return 1;
    }
    certificates->expires_s = tr_tls_context_expires_s(certificates->client);
    certificates->said_days = has_expired(certificates) ? 0 : NEVER_SAID;
    unsigned doubts = say_doubts(certificates, config, is_start ? TR_WARNING : TR_ERROR);
    if (is_start || doubts == 0)
        return 0;
    tr_certificates_free(certificates);
    return doubts;
}

void tr_certificates_free(struct tr_certificates *certificates)
{
    tr_tls_context_free(certificates->server);
    tr_tls_context_free(certificates->client);
    *certificates = (struct tr_certificates){.said_days = NEVER_SAID};
}

void tr_certificates_watch(struct tr_certificates *certificates, uint64_t now_s)
{
    bool is_past = now_s >= certificates->expires_s;
    uint64_t days = is_past ? 0 : 1 + (certificates->expires_s - now_s) / DAY_S;
    time_t end = (time_t)certificates->expires_s;
    char date[32] = "";
    struct tm parts;
    if (certificates->expires_s == 0 || days > DAYS_SAID || days == certificates->said_days)
        return;
    certificates->said_days = days;
    if (gmtime_r(&end, &parts) != NULL)
        strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S UTC", &parts);
    tr_say(TR_WARNING,
           is_past ? "[tls] cert has expired, at %s: clients and nodes that check it refuse this "
                     "one; renew it, and reload"
                   : "[tls] cert expires at %s; renew it, and reload",
           date);
}
