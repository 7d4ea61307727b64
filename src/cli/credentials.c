/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/credentials.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOKEN_MAX 512

static char token[TOKEN_MAX];
static const char *ca_file;

static bool read_token(const char *path)
{
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(token, 1, sizeof token - 1, file) : 0;
    int fault = errno;
    if (file != NULL)
        fclose(file);
    while (size > 0 && (token[size - 1] == '\n' || token[size - 1] == '\r' ||
                        token[size - 1] == ' ' || token[size - 1] == '\t'))
        size--;
    token[size] = '\0';
    if (size > 0 && strcspn(token, " \r\n\t") == size)
        return true;
    if (file == NULL)
        fprintf(stderr, "tryst: --token-file %s: %s\n", path, strerror(fault));
    else
        fprintf(stderr,
                "tryst: --token-file %s must hold a token, on one line; tryst token new "
                "prints one\n",
                path);
    return false;
}

/* The value of an option among the arguments, which is taken out of them. */
static const char *take(const char *name, int *argc, char **argv)
{
    size_t size = strlen(name);
    for (int i = 1; i < *argc && strcmp(argv[i], "--") != 0; i++) {
        bool is_joined = strncmp(argv[i], name, size) == 0 && argv[i][size] == '=';
        bool is_apart = strcmp(argv[i], name) == 0 && i + 1 < *argc;
        if (!is_joined && !is_apart)
            continue;
        const char *value = is_joined ? argv[i] + size + 1 : argv[i + 1];
        int taken = is_joined ? 1 : 2;
        for (int k = i; k + taken <= *argc; k++)
            argv[k] = argv[k + taken];
        *argc -= taken;
        return value;
    }
    return NULL;
}

static const char *take_or_variable(const char *name, const char *variable, int *argc, char **argv)
{
    const char *value = take(name, argc, argv);
    if (value == NULL)
        value = getenv(variable);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

bool tr_credentials_take(int *argc, char **argv)
{
    const char *path = take_or_variable("--token-file", "TRYST_TOKEN_FILE", argc, argv);
    ca_file = take_or_variable("--ca", "TRYST_CA", argc, argv);
    return path == NULL || read_token(path);
}

struct tr_span tr_credentials_token(void)
{
    return token[0] != '\0' ? (struct tr_span){token, strlen(token)} : (struct tr_span){NULL, 0};
}

const char *tr_credentials_header(void)
{
    static char header[TOKEN_MAX + 32];
    if (token[0] != '\0')
        snprintf(header, sizeof header, "Authorization: Bearer %s\r\n", token);
    return header;
}

const char *tr_credentials_ca(void)
{
    return ca_file;
}
