/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies, URIs, ids, routes, INI text and HTTP messages. */
#include "unit.h"

#include "http/api.h"
#include "wire/hex.h"
#include "wire/ini.h"
#include "wire/suggest.h"
#include "wire/timer_body.h"
#include "wire/uri.h"

#define CALLBACK "\"callback\":{\"http\":{\"uri\":\"http://h/p\",\"opaque\":\"x\"}}"

static bool is_lenient;

static bool parse(const char *text, struct tr_timer_body *body, struct tr_problem *problem)
{
    static char copy[65536];
    size_t size = strlen(text);
    memcpy(copy, text, size + 1);
    const struct tr_timer_limits limits = {.opaque_max = 1000, .ignores_unknown = is_lenient};
    return tr_timer_body_parse(copy, size, &limits, body, problem);
}

static void bodies_that_are_wrong_say_where(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        unsigned status;
        const char *detail;
    } cases[] = {
        {"[]", 400, "the body must be an object"},
        {"{}", 400, "timing is missing"},
        {"", 400, "the body is not JSON: there is nothing at byte 0"},
        {"{\"timing\":{\"interval\":1}}", 400, "callback is missing"},
        {"{\"timing\":[]," CALLBACK "}", 400, "timing must be an object"},
        {"{\"timing\":{}," CALLBACK "}", 400, "timing.interval is missing, as are at and cron"},
        {"{\"timing\":{\"interval\":-1}," CALLBACK "}", 400,
         "timing.interval must be a number >= 0"},
        {"{\"timing\":{\"interval\":\"1\"}," CALLBACK "}", 400,
         "timing.interval must be a number >= 0"},
        {"{\"timing\":{\"interval\":null}," CALLBACK "}", 400,
         "timing.interval must be a number >= 0"},
        {"{\"timing\":{\"interval\":1e30}," CALLBACK "}", 400,
         "timing.interval must be less than 1115 years"},
        {"{\"timing\":{\"interval\":2,\"repeat_for\":4}," CALLBACK "}", 400,
         "timing has no member repeat_for: did you mean repeat-for?"},
        {"{\"timing\":{\"interval\":2,\"colour\":4}," CALLBACK "}", 400,
         "timing has no member colour"},
        {"{\"timing\":{\"interval\":0,\"repeat-for\":5}," CALLBACK "}", 400,
         "timing.repeat-for must be 0 when timing.interval is 0"},
        {"{\"timing\":{\"interval\":0,\"repeat-for\":\"forever\"}," CALLBACK "}", 400,
         "timing.repeat-for must be 0 when timing.interval is 0"},
        {"{\"timing\":{\"interval\":1,\"repeat-for\":\"for ever\"}," CALLBACK "}", 400,
         "timing.repeat-for must be a number >= 0, or \"forever\""},
        {"{\"timing\":{\"interval\":1,\"count\":0}," CALLBACK "}", 400,
         "timing.count must be a whole number from 1 to 4294967295"},
        {"{\"timing\":{\"interval\":1,\"count\":2,\"repeat-for\":2}," CALLBACK "}", 400,
         "timing.count and timing.repeat-for cannot both be given"},
        {"{\"timing\":{\"interval\":0,\"count\":2}," CALLBACK "}", 400,
         "timing.count must be 1 when timing.interval is 0"},
        {"{\"timing\":{\"interval\":31536000,\"count\":4000}," CALLBACK "}", 400,
         "timing.count must end within 1115 years"},
        {"{\"timing\":{\"interval\":1,\"interval\":2}," CALLBACK "}", 400,
         "timing has a member twice: interval"},
        {"{\"timing\":{\"interval\":1}," CALLBACK "," CALLBACK "}", 400,
         "the body has a member twice: callback"},
        {"{\"x\":1,\"x\":2,\"timing\":{\"interval\":1}," CALLBACK "}", 400,
         "the body has a member twice: x"},
        {"{\"timing\":{\"interval\":1},\"callback\":{}}", 400, "callback.http is missing"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"smtp\":{}}}", 400,
         "callback may only have the member http"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"http\":{\"opaque\":\"x\"}}}", 400,
         "callback.http.uri is missing"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"http\":{\"uri\":\"http://h\"}}}", 400,
         "callback.http.opaque is missing"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"http\":{\"uri\":5,\"opaque\":\"x\"}}}", 400,
         "callback.http.uri must be a string"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"http\":{\"uri\":\"foo\",\"opaque\":\"x\"}}}",
         400, "callback.http.uri must begin with http:// or https://"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"reliability\":{\"replication-factor\":0}}",
         400, "reliability.replication-factor must be a whole number from 1 to 255"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"reliability\":{\"replication-factor\":-1}}",
         400, "reliability.replication-factor must be a whole number from 1 to 255"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"reliability\":{\"replicas\":[\"a\"]}}", 403,
         "reliability.replicas is for nodes, not for clients"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"statistics\":{\"tag-info\":{}}}", 400,
         "statistics.tag-info must be an array"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"statistics\":{\"tag-info\":[{}]}}", 400,
         "statistics.tag-info.type must be a string of 1 to 64 bytes"},
        {"{\"timing\":{\"interval\":1}," CALLBACK "} x", 400,
         "the body is not JSON: something follows the value at byte 80"},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        struct tr_timer_body body;
        struct tr_problem problem = {0};
        assert_false(parse(cases[i].body, &body, &problem));
        assert_string_equal(problem.detail, cases[i].detail);
        assert_int_equal(problem.status, cases[i].status);
    }
}

/* What a client would look at, in the body that it has sent. */
static void a_problem_points_to_what_is_wrong(void **state)
{
    (void)state;
    static const struct {
        const char *body;
        const char *pointer;
    } cases[] = {
        {"[]", ""},
        {"{\"timing\":{}," CALLBACK "}", "/timing/interval"},
        {"{\"timing\":{\"interval\":1,\"a/b~c\":2}," CALLBACK "}", "/timing/a~1b~0c"},
        {"{\"x\":1,\"x\":2,\"timing\":{\"interval\":1}," CALLBACK "}", "/x"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"smtp\":{}}}", "/callback/smtp"},
        {"{\"timing\":{\"interval\":1},\"callback\":{\"http\":{\"uri\":\"x\",\"opaque\":\"\"}}}",
         "/callback/http/uri"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"reliability\":{\"factor\":2}}",
         "/reliability/factor"},
        {"{\"timing\":{\"interval\":1}," CALLBACK
         ",\"statistics\":{\"tag-info\":[{\"type\":\"a\"},{\"type\":\"\"}]}}",
         "/statistics/tag-info/1/type"},
        {"{\"timing\":{\"interval\":1}," CALLBACK
         ",\"statistics\":{\"tag-info\":[{\"type\":\"a\",\"counts\":2}]}}",
         "/statistics/tag-info/0/counts"},
        {"{\"timing\":{\"interval\":1}," CALLBACK ",\"statistics\":{\"tags\":[]}}",
         "/statistics/tags"},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        struct tr_timer_body body;
        struct tr_problem problem = {0};
        assert_false(parse(cases[i].body, &body, &problem));
        assert_string_equal(problem.pointer, cases[i].pointer);
    }
}

static void who_needs_it_has_unknown_members_ignored(void **state)
{
    (void)state;
    struct tr_timer_body body;
    struct tr_problem problem;
    is_lenient = true;
    bool is_read = parse("{\"timing\":{\"interval\":2,\"repeat_for\":4},\"callback\":{\"http\":{"
                         "\"uri\":\"http://h/p\",\"opaque\":\"x\",\"method\":\"GET\"}}}",
                         &body, &problem);
    is_lenient = false;
    assert_true(is_read && body.interval_ms == 2000 && body.repeat_ms == 0);
    assert_true(
        parse("{\"timing\":{\"interval\":2,\"repeat-for\":1}," CALLBACK "}", &body, &problem));
    assert_int_equal(body.repeat_ms, 0); /* one pop */
    assert_true(parse("{\"timing\":{\"interval\":2,\"count\":3}," CALLBACK "}", &body, &problem));
    assert_int_equal(body.repeat_ms, 6000);
    assert_true(parse("{\"timing\":{\"interval\":2,\"count\":1}," CALLBACK "}", &body, &problem));
    assert_int_equal(body.repeat_ms, 0);
    assert_true(parse("{\"timing\":{\"interval\":2,\"repeat-for\":\"forever\"}," CALLBACK "}",
                      &body, &problem));
    assert_true(body.repeat_ms == TR_REPEAT_EVER);
}

static void names_that_are_close_are_suggested(void **state)
{
    (void)state;
    static const char *const names[] = {"interval", "repeat-for", "uri", NULL};
    assert_string_equal(tr_suggest(TR_SPAN("repeatFor"), names), "repeat-for");
    assert_string_equal(tr_suggest(TR_SPAN("intervall"), names), "interval");
    assert_string_equal(tr_suggest(TR_SPAN("url"), names), "uri");
    assert_null(tr_suggest(TR_SPAN("colour"), names));
    assert_null(tr_suggest(TR_SPAN(""), names));
    assert_null(
        tr_suggest(TR_SPAN("a-name-that-is-much-longer-than-any-that-there-is-anywhere"), names));
}

static void a_good_body_is_read(void **state)
{
    (void)state;
    struct tr_timer_body body;
    struct tr_problem problem;
    assert_true(parse(
        "{\"unknown\":[1,{\"a\":[]}],\"timing\":{\"interval\":30.0005,\"repeat-for\":300,"
        "\"sequence-number\":9},\"callback\":{\"http\":{\"uri\":\"https://h:8443/p?q\",\"opaque\":"
        "\"\\u0000z\",\"content-type\":\"text/css\"}},\"reliability\":{\"replication-factor\":3},"
        "\"statistics\":{\"tag-info\":[{\"type\":\"REG\"},{\"type\":\"REG\",\"count\":4}]}}",
        &body, &problem));
    assert_int_equal(body.interval_ms, 30001);
    assert_int_equal(body.repeat_ms, 300000);
    assert_int_equal(body.factor, 3);
    assert_int_equal(body.opaque.size, 2);
    assert_int_equal(body.tag_count, 1);
    assert_int_equal(body.tags[0].count, 5);
    assert_true(tr_span_equals(body.content_type, TR_SPAN("text/css")));
    assert_true(parse("{\"timing\":{\"interval\":0.0015,\"repeat-for\":0.0015}," CALLBACK "}",
                      &body, &problem));
    assert_int_equal(body.interval_ms, 2);
    assert_int_equal(body.repeat_ms, 0);
}

static void opaque_data_has_a_limit(void **state)
{
    (void)state;
    static char text[4096];
    struct tr_timer_body body;
    struct tr_problem problem;
    char opaque[1002];
    memset(opaque, 'o', 1001);
    opaque[1001] = '\0';
    snprintf(text, sizeof text,
             "{\"timing\":{\"interval\":1},\"callback\":{\"http\":{\"uri\":\"http://"
             "h\",\"opaque\":\"%s\"}}}",
             opaque);
    assert_false(parse(text, &body, &problem));
    assert_int_equal(problem.status, 413);
}

static void uris_are_taken_apart(void **state)
{
    (void)state;
    struct tr_uri uri;
    assert_null(tr_uri_parse(TR_SPAN("http://10.0.0.1/a/b?c=d#e"), &uri));
    assert_int_equal(uri.port, 80);
    assert_true(tr_span_equals(uri.target, TR_SPAN("/a/b?c=d")));
    assert_null(tr_uri_parse(TR_SPAN("HTTPS://[::1]:8443"), &uri));
    assert_true(uri.is_tls && uri.port == 8443);
    assert_true(tr_span_equals(uri.host, TR_SPAN("::1")));
    assert_true(tr_span_equals(uri.authority, TR_SPAN("[::1]:8443")));
    assert_int_equal(uri.target.size, 0);
    static const char *const bad[] = {"",
                                      "http://",
                                      "ftp://h",
                                      "http:/h",
                                      "http://h:0",
                                      "http://h:x",
                                      "http://h:99999",
                                      "http://a b",
                                      "http://u@h",
                                      "http://[::1",
                                      "//h",
                                      "http://:80",
                                      "http://h\n/",
                                      "http://h\"/",
                                      "http://\xc3\xa9/",
                                      "http://[::1]x/"};
    for (size_t i = 0; i < UNIT_COUNT(bad); i++) {
        if (tr_uri_parse((struct tr_span){bad[i], strlen(bad[i])}, &uri) == NULL)
            fail_msg("taken: %s", bad[i]);
    }
}

static void ids_are_written_and_read(void **state)
{
    (void)state;
    char text[TR_TIMER_TEXT_MAX];
    struct tr_writer writer = tr_writer_on(text, sizeof text);
    struct tr_timer_text id = {0x0002a3c680100000, 2, 0x123456789abcdef0};
    tr_put_timer_text(&writer, &id);
    assert_true(tr_span_equals((struct tr_span){text, writer.size},
                               TR_SPAN("0002a3c680100000-2-123456789abcdef0")));
    struct tr_timer_text read;
    assert_true(tr_timer_text_parse((struct tr_span){text, writer.size}, &read));
    assert_true(read.id == id.id && read.factor == id.factor && read.replicas == id.replicas);
    assert_true(tr_timer_text_parse(TR_SPAN("0002A3C680100000-2"), &read));
    assert_int_equal(read.id, id.id);
    assert_true(tr_timer_text_parse(TR_SPAN("0002a3c680100000-2whatever"), &read));
    assert_true(tr_timer_text_parse(TR_SPAN("0002a3c680100000-0"), &read));
    assert_int_equal(read.factor, 0);
    assert_false(tr_timer_text_parse(TR_SPAN("0002a3c680100000"), &read));
    assert_false(tr_timer_text_parse(TR_SPAN("0002a3c680100000-"), &read));
    assert_false(tr_timer_text_parse(TR_SPAN("0002a3c68010000g-2"), &read));
    assert_false(tr_timer_text_parse(TR_SPAN("0002a3c680100000-999"), &read));
    assert_false(tr_timer_text_parse(TR_SPAN("0002a3c6801000000002a3c680100000"), &read));
}

static void the_filter_of_replicas_is_the_original_one(void **state)
{
    (void)state;
    assert_true((tr_replica_bits(TR_SPAN("127.0.0.11:7253")) |
                 tr_replica_bits(TR_SPAN("127.0.0.12:7254"))) == 4630052261198168324u);
}

static void requests_find_their_way(void **state)
{
    (void)state;
    static const struct {
        enum tr_http_method method;
        const char *target;
        enum tr_api_kind kind;
        unsigned status;
    } cases[] = {
        {TR_HTTP_POST, "/timers", TR_API_CREATE, 0},
        {TR_HTTP_POST, "/timers/", TR_API_CREATE, 0},
        {TR_HTTP_POST, "/timers?", TR_API_CREATE, 0},
        {TR_HTTP_POST, "/timers?x", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers", TR_API_LIST, 0},
        {TR_HTTP_PUT, "/timers", TR_API_REFUSED, 405},
        {TR_HTTP_PUT, "/timers/0002a3c680100000-2", TR_API_REPLACE, 0},
        {TR_HTTP_DELETE, "/timers/0002a3c680100000-2-0", TR_API_CANCEL, 0},
        {TR_HTTP_GET, "/timers/0002a3c680100000-2", TR_API_READ, 0},
        {TR_HTTP_POST, "/timers/0002a3c680100000-2", TR_API_REFUSED, 405},
        {TR_HTTP_POST, "/timers/0002a3c680100000-2/redrive", TR_API_REDRIVE, 0},
        {TR_HTTP_GET, "/timers/0002a3c680100000-2/redrive", TR_API_REFUSED, 405},
        {TR_HTTP_GET, "/timers/named/redrive", TR_API_READ, 0},
        {TR_HTTP_POST, "/timers/named/fire/fire", TR_API_FIRE, 0},
        {TR_HTTP_GET, "/timers/nothing", TR_API_REFUSED, 404},
        {TR_HTTP_GET, "/timersfoo", TR_API_REFUSED, 404},
        {TR_HTTP_DELETE, "/timers/references", TR_API_REFERENCES, 0},
        {TR_HTTP_GET, "/timers?node-for-replicas=a;cluster-view-id=0123456789abcdef",
         TR_API_RESYNC_LIST, 0},
        {TR_HTTP_GET, "/timers?limit=0", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?limit=1001", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?cursor=xyz", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?state=other", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?tags=a", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?", TR_API_LIST, 0},
        {TR_HTTP_GET, "/timers?tag=%zz", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?tag=%", TR_API_REFUSED, 400},
        {TR_HTTP_OTHER, "/ping", TR_API_PING, 0},
        {TR_HTTP_GET, "/livez", TR_API_LIVE, 0},
        {TR_HTTP_GET, "/readyz", TR_API_READY, 0},
        {TR_HTTP_GET, "/healthz", TR_API_READY, 0},
        {TR_HTTP_GET, "/metrics", TR_API_METRICS, 0},
        {TR_HTTP_POST, "/metrics", TR_API_REFUSED, 405},
        {TR_HTTP_GET, "/", TR_API_UI, 0},
        {TR_HTTP_GET, "/ui/x.js?y=1", TR_API_UI, 0},
        {TR_HTTP_POST, "/ui/", TR_API_REFUSED, 405},
        {TR_HTTP_GET, "/timers/ahead?scope=cluster", TR_API_AHEAD, 0},
        {TR_HTTP_GET, "/timers?sort=due", TR_API_LIST, 0},
        {TR_HTTP_GET, "/timers?sort=id", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/timers?sort=due&cursor=0123456789abcdef", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/history", TR_API_HISTORY, 0},
        {TR_HTTP_GET, "/destinations?scope=node", TR_API_DESTINATIONS, 0},
        {TR_HTTP_GET, "/keys?pattern=a*&cursor=7", TR_API_KEYS, 0},
        {TR_HTTP_GET, "/keys/a%2Fb", TR_API_KEY, 0},
        {TR_HTTP_DELETE, "/keys/a", TR_API_KEY_DELETE, 0},
        {TR_HTTP_PUT, "/keys/a", TR_API_REFUSED, 405},
        {TR_HTTP_GET, "/keys/", TR_API_REFUSED, 400},
        {TR_HTTP_GET, "/keyspace", TR_API_KEYSPACE, 0},
        {TR_HTTP_GET, "/x", TR_API_REFUSED, 404},
        {TR_HTTP_GET, "*", TR_API_REFUSED, 404},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        struct tr_api_request request;
        tr_api_route(cases[i].method, (struct tr_span){cases[i].target, strlen(cases[i].target)},
                     &request);
        if (request.kind != cases[i].kind)
            fail_msg("%s is %d", cases[i].target, request.kind);
        if (cases[i].status != 0)
            assert_int_equal(request.problem.status, cases[i].status);
    }
    struct tr_api_request request;
    tr_api_route(
        TR_HTTP_GET,
        TR_SPAN("/timers?limit=7&cursor=00000000000000ff&tag=a%20b;state=dead&scope=cluster"),
        &request);
    assert_int_equal(request.query.limit, 7);
    assert_int_equal(request.query.cursor, 255);
    assert_true(tr_span_equals(request.query.tag, TR_SPAN("a b")));
    assert_true(request.query.wants_dead && request.wants_cluster);
}

static void ini_text_is_read_with_lines(void **state)
{
    (void)state;
    struct tr_ini ini;
    tr_ini_init(&ini, TR_SPAN("; comment\n[http]\r\nbind-port = 1 ; "
                              "why\nuri=http://a/;b#c\n\nbad\n[x\n[ two ]\nk=\n=v\n"));
    assert_int_equal(tr_ini_next(&ini), TR_INI_VALUE);
    assert_true(tr_span_equals(ini.section, TR_SPAN("http")) &&
                tr_span_equals(ini.value, TR_SPAN("1")));
    assert_int_equal(ini.line, 3);
    assert_int_equal(tr_ini_next(&ini), TR_INI_VALUE);
    assert_true(tr_span_equals(ini.value, TR_SPAN("http://a/;b#c")));
    assert_int_equal(tr_ini_next(&ini), TR_INI_BAD);
    assert_int_equal(ini.line, 6);
    assert_int_equal(tr_ini_next(&ini), TR_INI_BAD);
    assert_int_equal(tr_ini_next(&ini), TR_INI_VALUE);
    assert_true(tr_span_equals(ini.section, TR_SPAN("two")) && ini.value.size == 0);
    assert_int_equal(tr_ini_next(&ini), TR_INI_BAD);
    assert_int_equal(tr_ini_next(&ini), TR_INI_END);
    tr_ini_init(&ini, TR_SPAN("key = before any section"));
    assert_int_equal(tr_ini_next(&ini), TR_INI_BAD);
}

/* A request fed in pieces of every size is the same request. */
static void http_comes_in_pieces(void **state)
{
    (void)state;
    static const char text[] =
        "POST /timers?a HTTP/1.1\r\nHost: h\r\nIdempotency-Key:  k1 \r\nTransfer-Encoding: "
        "chunked\r\n"
        "\r\n3\r\nabc\r\n4;x=y\r\ndefg\r\n0\r\n\r\nGET /ping HTTP/1.1\r\n\r\n";
    size_t size = sizeof text - 1;
    for (size_t piece = 1; piece <= size; piece++) {
        struct tr_http http;
        char *buffer = malloc(size);
        size_t fed = 0;
        enum tr_http_state result = TR_HTTP_MORE;
        tr_http_init_request(&http, 100);
        memcpy(buffer, text, size);
        while (result == TR_HTTP_MORE) {
            size_t next = fed + piece < size ? fed + piece : size;
            assert_true(next > fed);
            result = tr_http_feed(&http, buffer, fed, next);
            fed = next;
        }
        assert_int_equal(result, TR_HTTP_COMPLETE);
        assert_int_equal(tr_http_method(&http), TR_HTTP_POST);
        assert_true(tr_span_equals(tr_http_span(buffer, http.target), TR_SPAN("/timers?a")));
        assert_true(tr_span_equals(tr_http_span(buffer, http.body), TR_SPAN("abcdefg")));
        assert_true(
            tr_span_equals(tr_http_header(&http, buffer, TR_HTTP_IDEMPOTENCY_KEY), TR_SPAN("k1")));
        assert_true(http.keeps_alive);
        size_t used = http.used;
        tr_http_next(&http);
        assert_int_equal(tr_http_feed(&http, buffer + used, 0, size - used), TR_HTTP_COMPLETE);
        assert_true(tr_span_equals(tr_http_span(buffer + used, http.target), TR_SPAN("/ping")));
        assert_null(tr_http_header(&http, buffer + used, TR_HTTP_IDEMPOTENCY_KEY).text);
        free(buffer);
    }
}

static void http_has_limits(void **state)
{
    (void)state;
    static char text[40000];
    struct tr_http http;
    tr_http_init_request(&http, 10);
    int size = snprintf(text, sizeof text, "POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n");
    assert_int_equal(tr_http_feed(&http, text, 0, (size_t)size), TR_HTTP_BAD);
    assert_int_equal(http.fault_status, 413);
    tr_http_init_request(&http, 10);
    size = snprintf(text, sizeof text,
                    "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n");
    assert_int_equal(tr_http_feed(&http, text, 0, (size_t)size), TR_HTTP_BAD);
    assert_int_equal(http.fault_status, 413);
    tr_http_init_request(&http, 10);
    size = snprintf(text, sizeof text, "GET /%09000d HTTP/1.1\r\n\r\n", 0);
    assert_int_equal(tr_http_feed(&http, text, 0, (size_t)size), TR_HTTP_BAD);
    assert_int_equal(http.fault_status, 414);
    tr_http_init_request(&http, 10);
    size = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nX: %020000d", 0);
    assert_int_equal(tr_http_feed(&http, text, 0, (size_t)size), TR_HTTP_BAD);
    assert_int_equal(http.fault_status, 431);
    tr_http_init_request(&http, 10);
    size = snprintf(text, sizeof text, "nonsense\r\n\r\n");
    assert_int_equal(tr_http_feed(&http, text, 0, (size_t)size), TR_HTTP_BAD);
    assert_int_equal(http.fault_status, 400);
}

static void times_are_written_as_rfc_3339(void **state)
{
    (void)state;
    static const struct {
        uint64_t at;
        const char *text;
    } cases[] = {
        {0, "1970-01-01T00:00:00.000Z"},
        {951782400000, "2000-02-29T00:00:00.000Z"},
        {1794719912621, "2026-11-15T05:18:32.621Z"},
        {4107542399999, "2100-02-28T23:59:59.999Z"},
        {4107542400000, "2100-03-01T00:00:00.000Z"},
    };
    for (size_t i = 0; i < UNIT_COUNT(cases); i++) {
        char text[32];
        struct tr_writer writer = tr_writer_on(text, sizeof text);
        tr_put_rfc3339(&writer, cases[i].at);
        assert_true(tr_span_equals((struct tr_span){text, writer.size},
                                   (struct tr_span){cases[i].text, strlen(cases[i].text)}));
    }
}

static void digits_and_percent_signs_are_read(void **state)
{
    (void)state;
    uint64_t number = 0;
    uint8_t bytes[4];
    char text[8];
    size_t size = 0;
    assert_true(tr_hex_number(TR_SPAN("00fF"), &number) && number == 255);
    assert_true(tr_hex_number(TR_SPAN("ffffffffffffffff"), &number) && number == UINT64_MAX);
    assert_false(tr_hex_number(TR_SPAN(""), &number));
    assert_false(tr_hex_number(TR_SPAN("0fffffffffffffffff"), &number));
    assert_false(tr_hex_number(TR_SPAN("1g"), &number));
    assert_true(tr_hex_bytes(TR_SPAN("00a1B2ff"), bytes, 4));
    assert_memory_equal(bytes, "\x00\xa1\xb2\xff", 4);
    assert_false(tr_hex_bytes(TR_SPAN("00a1b2f"), bytes, 4));
    assert_false(tr_hex_bytes(TR_SPAN("00a1b2"), bytes, 4));
    assert_false(tr_hex_bytes(TR_SPAN("00a1b2f:"), bytes, 4));
    assert_true(tr_percent_decode(TR_SPAN("a%2Fb+%25"), ' ', text, sizeof text, &size));
    assert_int_equal(size, 5);
    assert_memory_equal(text, "a/b %", 5);
    assert_false(tr_percent_decode(TR_SPAN("a%2"), '+', text, sizeof text, &size));
    assert_false(tr_percent_decode(TR_SPAN("a%zz"), '+', text, sizeof text, &size));
    assert_false(tr_percent_decode(TR_SPAN("123456789"), '+', text, sizeof text, &size));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bodies_that_are_wrong_say_where),
        cmocka_unit_test(a_problem_points_to_what_is_wrong),
        cmocka_unit_test(who_needs_it_has_unknown_members_ignored),
        cmocka_unit_test(names_that_are_close_are_suggested),
        cmocka_unit_test(a_good_body_is_read),
        cmocka_unit_test(opaque_data_has_a_limit),
        cmocka_unit_test(uris_are_taken_apart),
        cmocka_unit_test(ids_are_written_and_read),
        cmocka_unit_test(the_filter_of_replicas_is_the_original_one),
        cmocka_unit_test(requests_find_their_way),
        cmocka_unit_test(ini_text_is_read_with_lines),
        cmocka_unit_test(http_comes_in_pieces),
        cmocka_unit_test(http_has_limits),
        cmocka_unit_test(times_are_written_as_rfc_3339),
        cmocka_unit_test(digits_and_percent_signs_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
