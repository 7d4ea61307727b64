/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"
#include "wire/greeting.h"

static struct tr_greeting turn(const struct tr_greeting *greeting, uint8_t bytes[TR_GREETING_MAX])
{
    struct tr_writer out = tr_writer_on(bytes, TR_GREETING_MAX);
    struct tr_greeting back = {.kind = TR_GREETING_REFUSAL};
    tr_greeting_put(&out, greeting);
    assert_false(out.is_full);
    struct tr_reader in = tr_reader_on(bytes, out.size);
    assert_true(tr_greeting_get(&in, &back));
    for (size_t cut = 0; cut < out.size; cut++) {
        struct tr_greeting none;
        in = tr_reader_on(bytes, cut);
        assert_false(tr_greeting_get(&in, &none));
    }
    bytes[out.size] = 0; /* something after it */
    in = tr_reader_on(bytes, out.size + 1);
    struct tr_greeting none;
    assert_false(tr_greeting_get(&in, &none));
    return back;
}

static void greetings_are_read_back(void **state)
{
    (void)state;
    uint8_t bytes[TR_GREETING_MAX + 1];
    struct tr_greeting call = {
        TR_GREETING_CALL, 7, TR_SPAN("a:1"), TR_SPAN("b:2"), {1, 2}, {0}, {0}};
    struct tr_greeting back = turn(&call, bytes);
    assert_int_equal(back.version, 7);
    assert_true(tr_span_equals(back.from, call.from) && tr_span_equals(back.to, call.to));
    assert_memory_equal(back.nonce, call.nonce, TR_NONCE_SIZE);
    struct tr_greeting reply = {.kind = TR_GREETING_REPLY, .version = 3, .proof = {9}};
    back = turn(&reply, bytes);
    assert_int_equal(back.version, 3);
    assert_memory_equal(back.proof, reply.proof, TR_PROOF_SIZE);
    struct tr_greeting proof = {.kind = TR_GREETING_PROOF, .proof = {8, 8}};
    back = turn(&proof, bytes);
    assert_memory_equal(back.proof, proof.proof, TR_PROOF_SIZE);
    struct tr_greeting refusal = {.kind = TR_GREETING_REFUSAL, .reason = TR_SPAN("no")};
    back = turn(&refusal, bytes);
    assert_true(tr_span_equals(back.reason, TR_SPAN("no")));
}

/* What strangers say is logged. */
static void what_cannot_be_seen_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[TR_GREETING_MAX];
    static const char *const bad[] = {"a\n:1", "a\x1b[2J:1", "a\xff:1", "", "a\x7f"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct tr_greeting call = {.kind = TR_GREETING_CALL, .version = 1, .to = TR_SPAN("b:2")};
        call.from = (struct tr_span){bad[i], strlen(bad[i])};
        struct tr_writer out = tr_writer_on(bytes, sizeof bytes);
        tr_greeting_put(&out, &call);
        struct tr_reader in = tr_reader_on(bytes, out.size);
        assert_false(tr_greeting_get(&in, &call));
    }
}

static size_t swear(uint8_t bytes[TR_OATH_MAX], enum tr_greeting_role role,
                    const struct tr_oath *oath)
{
    struct tr_writer out = tr_writer_on(bytes, TR_OATH_MAX);
    tr_greeting_oath(&out, role, oath);
    assert_false(out.is_full);
    return out.size;
}

/* A proof for one link is none for another, nor for its other end. */
static void each_oath_is_another(void **state)
{
    (void)state;
    struct tr_oath oaths[6];
    uint8_t bytes[7][TR_OATH_MAX] = {{0}};
    for (unsigned i = 0; i < 6; i++)
        oaths[i] = (struct tr_oath){1, TR_SPAN("ab:1"), TR_SPAN("c:1"), {1}, {2}};
    oaths[1].version = 2;
    oaths[2].dialler = TR_SPAN("a:1");
    oaths[3].acceptor = TR_SPAN("bc:1");
    oaths[4].dialler_nonce[31] = 1;
    oaths[5].acceptor_nonce[31] = 1;
    for (unsigned i = 0; i < 6; i++)
        swear(bytes[i], TR_DIALLER, &oaths[i]);
    swear(bytes[6], TR_ACCEPTOR, &oaths[0]);
    for (unsigned i = 0; i < 7; i++) {
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(bytes[i], bytes[k], TR_OATH_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greetings_are_read_back),
        cmocka_unit_test(what_cannot_be_seen_is_refused),
        cmocka_unit_test(each_oath_is_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
