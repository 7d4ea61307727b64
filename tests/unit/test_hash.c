/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash.h"
#include "unit.h"

static void murmur3_gives_its_published_values(void **state)
{
    (void)state;
    assert_int_equal(tr_hash_murmur3("test", 4, 0), 0xba6bd213);
    assert_int_equal(tr_hash_murmur3("Hello, world!", 13, 0x9747b28c), 0x24884cba);
    assert_int_equal(tr_hash_murmur3("", 0, 0), 0);
    assert_int_equal(tr_hash_murmur3("", 0, 1), 0x514e28b7);
}

static void murmur3_of_an_id_is_that_of_its_bytes(void **state)
{
    (void)state;
    uint8_t bytes[8];
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t id = tr_hash_mix(i);
        tr_hash_id_bytes(id, bytes);
        assert_int_equal(tr_hash_murmur3_id(id, (uint32_t)i),
                         tr_hash_murmur3(bytes, 8, (uint32_t)i));
    }
}

static void jenkins_gives_its_published_values(void **state)
{
    (void)state;
    assert_int_equal(tr_hash_jenkins("a", 1), 0xca2e9442);
    assert_int_equal(tr_hash_jenkins("The quick brown fox jumps over the lazy dog", 43),
                     0x519e91f5);
}

static void xxh3_gives_its_published_values(void **state)
{
    (void)state;
    assert_true(tr_hash_xxh3("", 0) == 0x2d06800538d394c2u);
    assert_true(tr_hash_xxh3("a", 1) == 0xe6c632b61e964e1fu);
}

static void an_id_is_hashed_lowest_byte_first(void **state)
{
    (void)state;
    uint8_t bytes[8];
    tr_hash_id_bytes(0x0807060504030201u, bytes);
    for (uint8_t i = 0; i < 8; i++)
        assert_int_equal(bytes[i], i + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(murmur3_gives_its_published_values),
        cmocka_unit_test(murmur3_of_an_id_is_that_of_its_bytes),
        cmocka_unit_test(jenkins_gives_its_published_values),
        cmocka_unit_test(xxh3_gives_its_published_values),
        cmocka_unit_test(an_id_is_hashed_lowest_byte_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
