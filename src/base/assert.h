/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions that stay on in every build: a broken invariant ends the process before it can spread.
 * For programmer errors only; bad input gets a status code.
 */
#ifndef TR_BASE_ASSERT_H
#define TR_BASE_ASSERT_H

#define TR_ASSERT(condition)                                                                       \
    ((condition) ? (void)0 : tr_assert_failed(#condition, __FILE__, __LINE__))

/* A place that cannot be reached. */
#define TR_UNREACHABLE(why) tr_assert_failed(why, __FILE__, __LINE__)

/* Writes one line to standard error and aborts. */
_Noreturn void tr_assert_failed(const char *condition, const char *file, int line);

#endif
