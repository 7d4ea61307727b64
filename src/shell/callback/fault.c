/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/callback/fault.h"

#include <openssl/x509.h>
#include <stdio.h>

enum tr_fault tr_fault_of_certificate(long verdict)
{
    bool is_known = verdict > 0 && verdict <= TR_FAULT_TLS_MOST - TR_FAULT_TLS;
    return (enum tr_fault)(is_known ? TR_FAULT_TLS + verdict : TR_FAULT_TLS);
}

/* What is wrong beyond a word, or NULL. */
static const char *certificate_of(enum tr_fault fault)
{
    return fault > TR_FAULT_TLS ? X509_verify_cert_error_string((long)fault - TR_FAULT_TLS) : NULL;
}

static const char *word_of(enum tr_fault fault)
{
    switch ((int)fault) {
    case TR_FAULT_NONE:
        return "unreachable";
    case TR_FAULT_DNS:
        return "dns";
    case TR_FAULT_DENIED:
        return "denied by [callback] deny";
    case TR_FAULT_NODE:
        return "denied by [callback] to-nodes";
    case TR_FAULT_REFUSED:
        return "refused";
    case TR_FAULT_RESET:
        return "reset";
    case TR_FAULT_ANSWER:
        return "no HTTP";
    case TR_FAULT_TIMED_OUT:
        return "timed out";
    default:
        return "tls";
    }
}

void tr_fault_write(enum tr_fault fault, char *out, size_t cap)
{
    const char *certificate = certificate_of(fault);
    snprintf(out, cap, "%s%s%s", word_of(fault), certificate != NULL ? ": " : "",
             certificate != NULL     ? certificate
             : fault == TR_FAULT_TLS ? ": the handshake failed"
                                     : "");
}

void tr_fault_explain(enum tr_fault fault, char *out, size_t cap)
{
    switch ((int)fault) {
    case TR_FAULT_DNS:
        snprintf(out, cap, "its host has no address (dns)");
        return;
    case TR_FAULT_DENIED:
        snprintf(out, cap, "its address is in a network of [callback] deny");
        return;
    case TR_FAULT_NODE:
        snprintf(out, cap, "it is a node of the cluster; [callback] to-nodes allows that");
        return;
    case TR_FAULT_REFUSED:
        snprintf(out, cap, "the connection was refused");
        return;
    case TR_FAULT_RESET:
        snprintf(out, cap, "the connection broke (reset)");
        return;
    case TR_FAULT_ANSWER:
        snprintf(out, cap, "its answer is no HTTP");
        return;
    case TR_FAULT_TIMED_OUT:
        snprintf(out, cap, "it timed out");
        return;
    default:
        break;
    }
    const char *certificate = certificate_of(fault);
    snprintf(out, cap, "TLS failed%s%s", certificate != NULL ? ": " : "",
             certificate != NULL ? certificate : "");
}
