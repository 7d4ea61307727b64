/* SPDX-License-Identifier: Apache-2.0 */
#include "shell/notify.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void tr_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = path == NULL ? 0 : strlen(path);
    if (size < 2 || size >= sizeof address.sun_path)
        return;
    memcpy(address.sun_path, path, size);
    if (path[0] == '@')
        address.sun_path[0] = '\0'; /* an abstract name */
    int file = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (file < 0)
        return;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size);
    /* Nobody to tell is nothing to fail for. */
    (void)!sendto(file, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    close(file);
}

static void on_watchdog(uv_timer_t *timer)
{
    (void)timer;
    tr_notify("WATCHDOG=1");
}

void tr_notify_watch(uv_loop_t *loop, uv_timer_t *timer)
{
    const char *interval = getenv("WATCHDOG_USEC");
    const char *process = getenv("WATCHDOG_PID");
    uint64_t us = interval == NULL ? 0 : strtoull(interval, NULL, 10);
    bool is_ours = process == NULL || strtol(process, NULL, 10) == (long)getpid();
    uv_timer_init(loop, timer);
    uv_unref((uv_handle_t *)timer);
    if (us > 0 && is_ours) /* in half of the time, as sd_watchdog_enabled(3) wants it */
        uv_timer_start(timer, on_watchdog, us / 2000, us / 2000 > 0 ? us / 2000 : 1);
}
