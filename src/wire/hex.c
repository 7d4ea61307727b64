/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/hex.h"

int tr_hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

bool tr_hex_number(struct tr_span text, uint64_t *value)
{
    *value = 0;
    if (text.size == 0 || text.size > 16)
        return false;
    for (size_t i = 0; i < text.size; i++) {
        int digit = tr_hex_digit(text.text[i]);
        if (digit < 0)
            return false;
        *value = *value << 4 | (uint64_t)digit;
    }
    return true;
}

bool tr_hex_bytes(struct tr_span text, void *bytes, size_t size)
{
    uint8_t *to = bytes;
    if (text.size % 2 != 0 || text.size / 2 != size)
        return false;
    for (size_t i = 0; i < size; i++) {
        int high = tr_hex_digit(text.text[2 * i]);
        int low = tr_hex_digit(text.text[2 * i + 1]);
        if (high < 0 || low < 0)
            return false;
        to[i] = (uint8_t)(high * 16 + low);
    }
    return true;
}

bool tr_percent_decode(struct tr_span text, char plus, char *out, size_t cap, size_t *size)
{
    size_t count = 0;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.text[i];
        if (c == '+')
            c = plus;
        if (c == '%') {
            if (text.size - i < 3 || !tr_hex_bytes((struct tr_span){text.text + i + 1, 2}, &c, 1))
                return false;
            i += 2;
        }
        if (count == cap)
            return false;
        out[count++] = c;
    }
    *size = count;
    return true;
}
