/* SPDX-License-Identifier: Apache-2.0 */
/* 128 bits: not in C11, in every compiler we build with. */
#ifndef TR_BASE_WIDE_H
#define TR_BASE_WIDE_H

__extension__ typedef unsigned __int128 tr_u128;

#endif
