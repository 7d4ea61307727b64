/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/svg.h"

#include "cli/utf8.h"

#include <errno.h>
#include <string.h>

static void print_character(FILE *out, const char *text, size_t size)
{
    if (size == 0)
        fputs(TR_UTF8_REPLACEMENT, out);
    else if (*text == '<')
        fputs("&lt;", out);
    else if (*text == '>')
        fputs("&gt;", out);
    else if (*text == '&')
        fputs("&amp;", out);
    else
        fwrite(text, 1, size, out);
}

void tr_svg_name(FILE *out, const char *name, size_t most)
{
    size_t count = tr_utf8_count(name);
    size_t head = count <= most ? count : most / 3;
    size_t tail = count <= most ? 0 : most - head - 1;
    size_t left = strlen(name);
    for (size_t i = 0; i < count; i++) {
        size_t size = tr_utf8_size(name, left);
        if (i == head)
            fputs("…", out);
        if (i < head || i >= count - tail)
            print_character(out, name, size);
        name += size + (size == 0);
        left -= size + (size == 0);
    }
}

static enum tr_exit failed(const char *command, const char *path)
{
    fprintf(stderr, "tryst %s: cannot write '%s': %s\n", command, path, strerror(errno));
    return TR_EXIT_FAILED;
}

FILE *tr_svg_open(const char *command, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        failed(command, path);
    return file;
}

enum tr_exit tr_svg_close(const char *command, FILE *file, const char *path)
{
    bool is_written = !ferror(file);
    if (fclose(file) != 0)
        is_written = false;
    return is_written ? TR_EXIT_OK : failed(command, path);
}
