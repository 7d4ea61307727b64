/* SPDX-License-Identifier: Apache-2.0 */
/* `tryst token`: tokens for `[auth] tokens-file`. */
#include "wire/token.h"

#include "cli/options.h"
#include "proof/proof.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define RANDOM_SIZE 32
#define SCOPES_SIZE 2048

enum option_id { OPTION_SCOPE = 1, OPTION_FILE, OPTION_HELP };

static const struct tr_option token_options[] = {{"--scope", true, OPTION_SCOPE},
                                                 {"--tokens-file", true, OPTION_FILE},
                                                 {"--help", false, OPTION_HELP},
                                                 {NULL, false, 0}};

struct wish {
    const char *name;
    const char *file;
    char scopes[SCOPES_SIZE];
};

/* As base64 has it, with the letters that stand in addresses, too. */
static bool draw(char text[64])
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint8_t bytes[RANDOM_SIZE];
    size_t size = 0;
    uint32_t bits = 0;
    unsigned count = 0;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        bits = bits << 8 | bytes[i];
        for (count += 8; count >= 6; count -= 6)
            text[size++] = letters[bits >> (count - 6) & 63];
    }
    text[size++] = letters[bits << (6 - count) & 63];
    text[size] = '\0';
    return true;
}

static bool has_good_name(const char *name)
{
    size_t size = strlen(name);
    return size > 0 && size < TR_TOKEN_NAME && strpbrk(name, " \t\r\n,#") == NULL;
}

/* Whether a line of the file is of this name. */
static bool is_taken(const char *path, const char *name)
{
    char line[4096];
    bool is_taken = false;
    size_t size = strlen(name);
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        is_taken |= strncmp(line, name, size) == 0 && strchr(" \t,", line[size]) != NULL;
    if (file != NULL)
        fclose(file);
    return is_taken;
}

/* Whether its last line has no end. */
static bool ends_badly(const char *path)
{
    FILE *file = fopen(path, "re");
    bool is_bad = file != NULL && fseek(file, -1, SEEK_END) == 0 && fgetc(file) != '\n';
    if (file != NULL)
        fclose(file);
    return is_bad;
}

static enum tr_exit append(const struct wish *wish, const char *text)
{
    uint8_t hash[TR_TOKEN_HASH];
    char line[SCOPES_SIZE + 256];
    tr_digest((struct tr_span){text, strlen(text)}, hash);
    int size = snprintf(line, sizeof line, "%s%s%s sha256:", ends_badly(wish->file) ? "\n" : "",
                        wish->name, wish->scopes);
    for (unsigned i = 0; i < TR_TOKEN_HASH; i++)
        size += snprintf(line + size, sizeof line - (size_t)size, "%02x", hash[i]);
    line[size++] = '\n';
    int file = open(wish->file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    bool is_written = file >= 0 && write(file, line, (size_t)size) == size && fsync(file) == 0;
    if (!is_written)
        fprintf(stderr, "tryst token: %s: %s\n", wish->file, strerror(errno));
    if (file >= 0)
        close(file);
    return is_written ? TR_EXIT_OK : TR_EXIT_FAILED;
}

static enum tr_exit make(const struct wish *wish)
{
    char text[64];
    struct tr_token token = {.reads = false};
    if (wish->name == NULL || wish->file == NULL || wish->scopes[0] == '\0')
        return tr_usage_error("token", "new NAME --scope SCOPE... --tokens-file FILE");
    if (!has_good_name(wish->name))
        return tr_usage_error("token", "a name has 1 to 63 bytes, and no blanks or commas");
    const char *wrong =
        tr_token_parse_scopes((struct tr_span){wish->scopes, strlen(wish->scopes)}, &token);
    if (wrong != NULL)
        return tr_usage_error("token", "%s", wrong);
    if (is_taken(wish->file, wish->name))
        return tr_usage_error("token", "%s has a token of that name: take its line out first",
                              wish->file);
    if (!draw(text)) {
        fprintf(stderr, "tryst token: no random bytes: %s\n", strerror(errno));
        return TR_EXIT_FAILED;
    }
    enum tr_exit status = append(wish, text);
    if (status != TR_EXIT_OK)
        return status;
    fprintf(stderr,
            "%s has a line for %s; nodes read it at SIGHUP. The token is shown this once:\n",
            wish->file, wish->name);
    puts(text);
    return TR_EXIT_OK;
}

enum tr_exit tr_command_token(int argc, char **argv)
{
    struct wish wish = {.name = NULL};
    size_t size = 0;
    bool is_new = false;
    struct tr_options options = tr_options_start("token", token_options, argc, argv);
    enum tr_options_step step;
    while ((step = tr_options_next(&options)) == TR_OPTIONS_ONE) {
        if (options.id == OPTION_HELP) {
            tr_help_print(stdout, "token");
            return TR_EXIT_OK;
        }
        if (options.id == OPTION_FILE)
            wish.file = options.value;
        else if (options.id == OPTION_SCOPE && size + strlen(options.value) + 2 < SCOPES_SIZE)
            size += (size_t)snprintf(wish.scopes + size, SCOPES_SIZE - size, " %s", options.value);
        else if (options.id == OPTION_SCOPE)
            return tr_usage_error("token", "the scopes are too long");
        else if (!is_new && strcmp(options.value, "new") == 0)
            is_new = true;
        else if (is_new && wish.name == NULL)
            wish.name = options.value;
        else
            return tr_usage_error("token", "new NAME --scope SCOPE... --tokens-file FILE");
    }
    if (step == TR_OPTIONS_BAD)
        return TR_EXIT_USAGE;
    return make(&wish);
}
