/* etcd's messages and the names of its keys, without a server: what is put is
 * read again, and what is cut or altered is refused. spec/etcd/units_spec.lua
 * compiles and runs it. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "store/session/etcd/names.h"
#include "store/session/etcd/wire/messages.h"

static bool is(const struct dlk_buf *b, const char *bytes, size_t n) {
  return !b->failed && b->len == n && memcmp(b->data, bytes, n) == 0;
}

#define IS(buf, text) is(buf, text, sizeof text - 1)

static bool same(struct dlk_etcd_bytes s, const char *text) {
  return s.n == strlen(text) && memcmp(s.p, text, s.n) == 0;
}

static struct dlk_etcd_bytes of(const char *text) {
  return (struct dlk_etcd_bytes){text, strlen(text)};
}

static struct dlk_etcd_bytes all(const struct dlk_buf *b) {
  return (struct dlk_etcd_bytes){b->data, b->len};
}

/* ---- fields ---- */

TEST(numbers_are_varints) {
  struct dlk_buf b = {0};
  dlk_pb_int(&b, 1, 0);
  CHECK(b.len == 0);
  dlk_pb_int(&b, 1, 300);
  CHECK(IS(&b, "\x08\xac\x02"));
  dlk_buf_clear(&b);
  dlk_pb_int(&b, 64, -1);
  CHECK(IS(&b, "\x80\x04\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"));
  struct dlk_pb r = dlk_pb_of(b.data, b.len);
  struct dlk_pb_field f;
  CHECK(dlk_pb_next(&r, &f) && f.number == 64 && f.value == -1 && !f.bytes);
  CHECK(!dlk_pb_next(&r, &f) && !r.bad);
  dlk_buf_free(&b);
}

TEST(a_message_has_its_length_before_it) {
  static const size_t sizes[] = {0, 1, 124, 125, 16379, 16380, 70000};
  static char text[70000];
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct dlk_buf b = {0};
    dlk_pb_int(&b, 9, 1);
    size_t outer = dlk_pb_open(&b, 3), inner = dlk_pb_open(&b, 2);
    dlk_pb_bytes(&b, 1, text, sizes[i]);
    dlk_pb_close(&b, inner);
    dlk_pb_close(&b, outer);
    dlk_pb_int(&b, 8, 2);
    struct dlk_pb r = dlk_pb_of(b.data, b.len);
    struct dlk_pb_field f;
    CHECK(dlk_pb_next(&r, &f) && f.number == 9);
    CHECK(dlk_pb_next(&r, &f) && f.number == 3 && f.bytes);
    struct dlk_pb in = dlk_pb_of(f.bytes, f.len);
    CHECK(dlk_pb_next(&in, &f) && f.number == 2);
    in = dlk_pb_of(f.bytes, f.len);
    CHECK(dlk_pb_next(&in, &f) && f.number == 1 && f.len == sizes[i]);
    CHECK(dlk_pb_next(&r, &f) && f.number == 8 && f.value == 2);
    CHECK(!dlk_pb_next(&r, &f) && !r.bad);
    dlk_buf_free(&b);
  }
}

TEST(what_is_no_message_is_bad) {
  static const struct {
    const char *bytes;
    size_t n;
  } bad[] = {{"\x08", 1},
             {"\x0a\x05"
              "abc",
              5},
             {"\x0b\x0c", 2}, /* a group */
             {"\x0d\x01\x02\x03", 4},
             {"\x09\x01\x02\x03\x04", 5},
             {"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12},
             {"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct dlk_pb r = dlk_pb_of(bad[i].bytes, bad[i].n);
    struct dlk_pb_field f;
    while (dlk_pb_next(&r, &f))
      continue;
    CHECK(r.bad);
  }
}

/* ---- messages ---- */

TEST(a_transaction_is_as_etcd_has_it) {
  struct dlk_buf b = {0};
  struct dlk_etcd_put put = {of("k"), of("v"), .lease = 7};
  struct dlk_etcd_range r = {
      .key = of("f/"), .folder = true, .keys_only = true};
  dlk_etcd_if(&b, of("k"), DLK_ETCD_CREATE, 0);
  dlk_etcd_if(&b, of("e"), DLK_ETCD_MOD, 5);
  dlk_etcd_if_none(&b, of("e/2"), of("e/"));
  dlk_etcd_do_put(&b, &put);
  dlk_etcd_do_delete(&b, of("d"), false);
  dlk_etcd_do_delete(&b, of("d"), true);
  dlk_etcd_do_range(&b, DLK_ETCD_ELSE, &r);
  CHECK(IS(&b, "\x0a\x05\x10\x01\x1a\x01k"
               "\x0a\x07\x10\x02\x1a\x01"
               "e\x30\x05"
               "\x0a\x0c\x10\x01\x1a\x03"
               "e/2\x82\x04\x02"
               "e0"
               "\x12\x0a\x12\x08\x0a\x01k\x12\x01v\x18\x07"
               "\x12\x05\x1a\x03\x0a\x01"
               "d"
               "\x12\x09\x1a\x07\x0a\x01"
               "d\x12\x02"
               "d0"
               "\x1a\x0c\x0a\x0a\x0a\x02"
               "f/\x12\x02"
               "f0\x40\x01"));
  dlk_buf_free(&b);
}

TEST(small_requests_are_as_etcd_has_them) {
  struct dlk_buf b = {0};
  dlk_etcd_watch(&b, of("f/"), true, 3, 8);
  CHECK(IS(&b, "\x0a\x0c\x0a\x02"
               "f/\x12\x02"
               "f0\x18\x08\x38\x03"));
  dlk_buf_clear(&b);
  dlk_etcd_unwatch(&b, 3);
  CHECK(IS(&b, "\x12\x02\x08\x03"));
  dlk_buf_clear(&b);
  dlk_etcd_grant(&b, 10, 4);
  dlk_etcd_lease(&b, 6);
  dlk_etcd_authenticate(&b, "u", "");
  CHECK(IS(&b, "\x08\x0a\x10\x04\x08\x06\x0a\x01u\x12\x00"));
  dlk_buf_free(&b);
}

static void put_kv(struct dlk_buf *b, const char *key, int64_t created) {
  size_t mark = dlk_pb_open(b, 2);
  dlk_pb_bytes(b, 1, key, strlen(key));
  dlk_pb_int(b, 2, created);
  dlk_pb_int(b, 3, created + 1);
  dlk_pb_int(b, 4, 1);
  dlk_pb_bytes(b, 5, "data", 4);
  dlk_pb_int(b, 6, 77);
  dlk_pb_close(b, mark);
}

static void put_header(struct dlk_buf *b, int64_t revision) {
  size_t mark = dlk_pb_open(b, 1);
  dlk_pb_int(b, 1, INT64_MIN);
  dlk_pb_int(b, 3, revision);
  dlk_pb_close(b, mark);
}

static void put_ranged(struct dlk_buf *b, int64_t revision) {
  put_header(b, revision);
  put_kv(b, "a", 4);
  put_kv(b, "b", 6);
  dlk_pb_int(b, 4, 2);
}

static bool reads_ranged(struct dlk_etcd_ranged *got) {
  struct dlk_etcd_kv kv;
  return got->count == 2 && dlk_etcd_next_kv(&got->kvs, &kv) &&
         same(kv.key, "a") && same(kv.value, "data") && kv.created == 4 &&
         kv.modified == 5 && kv.lease == 77 &&
         dlk_etcd_next_kv(&got->kvs, &kv) && same(kv.key, "b") &&
         !dlk_etcd_next_kv(&got->kvs, &kv) && !got->kvs.bad;
}

TEST(a_range_is_read) {
  struct dlk_buf b = {0};
  struct dlk_etcd_ranged got;
  put_ranged(&b, 12);
  CHECK(dlk_etcd_ranged(all(&b), &got) && got.revision == 12);
  CHECK(reads_ranged(&got));
  dlk_buf_free(&b);
}

TEST(a_transactions_parts_are_read) {
  struct dlk_buf b = {0};
  struct dlk_etcd_did did;
  put_header(&b, 13);
  dlk_pb_int(&b, 2, 1);
  size_t op = dlk_pb_open(&b, 3), part = dlk_pb_open(&b, 2);
  put_header(&b, 13);
  dlk_pb_close(&b, part);
  dlk_pb_close(&b, op);
  op = dlk_pb_open(&b, 3);
  part = dlk_pb_open(&b, 1);
  put_ranged(&b, 0);
  dlk_pb_close(&b, part);
  dlk_pb_close(&b, op);
  op = dlk_pb_open(&b, 3);
  part = dlk_pb_open(&b, 3);
  dlk_pb_int(&b, 2, 1);
  dlk_pb_close(&b, part);
  dlk_pb_close(&b, op);
  CHECK(dlk_etcd_did(all(&b), &did) && did.succeeded && did.deleted == 1);
  CHECK(did.range.revision == 13 && reads_ranged(&did.range));
  for (size_t n = 0; n < b.len; n++) /* cut anywhere: bad, or less */
    if (dlk_etcd_did((struct dlk_etcd_bytes){b.data, n}, &did))
      CHECK(did.deleted == 0);
  dlk_buf_free(&b);
}

TEST(leases_watches_and_tokens_are_read) {
  struct dlk_buf b = {0};
  struct dlk_etcd_leased leased;
  struct dlk_etcd_watched got;
  struct dlk_etcd_bytes token;
  bool deleted = true;
  put_header(&b, 2);
  dlk_pb_int(&b, 2, 5);
  dlk_pb_int(&b, 3, 10);
  CHECK(dlk_etcd_leased(all(&b), &leased) && leased.id == 5 &&
        leased.ttl == 10);
  CHECK(dlk_etcd_watched(all(&b), &got) && got.id == 5 && !got.canceled &&
        !dlk_etcd_next_event(&got.events, &deleted));
  for (int i = 0; i < 2; i++) {
    size_t mark = dlk_pb_open(&b, 11);
    dlk_pb_int(&b, 1, i);
    dlk_pb_close(&b, mark);
  }
  CHECK(dlk_etcd_watched(all(&b), &got));
  CHECK(dlk_etcd_next_event(&got.events, &deleted) && !deleted);
  CHECK(dlk_etcd_next_event(&got.events, &deleted) && deleted);
  CHECK(!dlk_etcd_next_event(&got.events, &deleted) && !got.events.bad);
  dlk_buf_clear(&b);
  put_header(&b, 2);
  CHECK(!dlk_etcd_token(all(&b), &token));
  dlk_pb_bytes(&b, 2, "word", 4);
  CHECK(dlk_etcd_token(all(&b), &token) && same(token, "word"));
  dlk_buf_free(&b);
}

/* ---- names ---- */

#define GUID "00000000000000000000000000000007-0123456789abcdef"

static bool key_is(const char *path, const char *key, int64_t created) {
  struct dlk_etcd_node n = {0};
  dlk_etcd_node_of(&n, path);
  bool ok = same(all(&n.key), key) && n.created == created;
  dlk_buf_free(&n.key);
  return ok;
}

static bool name_is(const char *rest, int64_t created, const char *name) {
  struct dlk_buf b = {0};
  dlk_etcd_name(&b, of(rest), created);
  bool ok = strcmp(b.data, name) == 0;
  dlk_buf_free(&b);
  return ok;
}

TEST(a_contenders_number_is_its_create_revision) {
  CHECK(key_is("/l/x-" GUID "-", "/l/x-" GUID, 0));
  CHECK(key_is("/l/xk-" GUID "-000000000000042", "/l/xk-" GUID, 42));
  CHECK(key_is("/l-k/p2.10-" GUID "-099999999999999", "/l-k/p2.10-" GUID,
               99999999999999));
  CHECK(name_is("x-" GUID, 42, "x-" GUID "-000000000000042"));
  CHECK(dlk_etcd_until_ms("/l/xk-" GUID "-000000000000042") == 0);
}

#define LEASE "694d8a1b2c3d4e50"
#define NOBODY "-0000000000000000-"

TEST(a_lock_of_etcdctl_is_an_exclusive_contender) {
  const char *name = "x-0000000000000000" LEASE NOBODY "000000000000042";
  CHECK(name_is(LEASE, 42, name));
  CHECK(key_is("/l/x-0000000000000000" LEASE NOBODY "000000000000042",
               "/l/" LEASE, 42));
  CHECK(name_is("70", 8,
                "x-00000000000000000000000000000070" NOBODY "000000000000008"));
  static const char *const others[] = {"07", "694D", LEASE "1", "g", "x-1"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    char expected[60];
    snprintf(expected, sizeof expected, "%s-000000000000008", others[i]);
    CHECK(name_is(others[i], 8, expected));
  }
}

TEST(a_stand_ins_end_is_for_its_maker_alone) {
  const char *path = "/l/s1k1700-" GUID "-000000000000042";
  CHECK(key_is(path, "/l/s1k~-" GUID "-000000000000042", 0));
  CHECK(dlk_etcd_until_ms(path) == 1700);
  CHECK(name_is("s1k~-" GUID "-000000000000042", 50,
                "s1k999999999999999999-" GUID "-000000000000042"));
}

int main(void) {
  return check_all();
}
