/* Consul's transactions, answers and keys, without a server.
 * spec/consul/units_spec.lua compiles and runs it. */
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "store/session/consul/wire/txn.h"
#include "store/session/format/names.h"

#define GUID "0123456789abcdef0123456789abcdef-fedcba9876543210"

static bool is(struct dlk_buf *b, const char *text) {
  bool same = !b->failed && b->len == strlen(text) &&
              memcmp(b->data, text, b->len) == 0;
  dlk_buf_free(b);
  return same;
}

static struct dlk_buf of(const char *text) {
  return (struct dlk_buf){.data = (char *)(uintptr_t)text, .len = strlen(text)};
}

static bool reads(const char *text, struct dlk_consul_answer *a) {
  const struct dlk_buf body = of(text);
  return dlk_consul_read(&body, a);
}

TEST(ops_stand_in_an_array) {
  struct dlk_buf body = {0};
  const struct dlk_buf a = of("a/\"b"), b = of("\xc3\xa4");
  const struct dlk_consul_op lock = {
      .verb = "lock", .key = &a, .value = "v", .len = 1, .session = "s-1"};
  const struct dlk_consul_op check = {
      .verb = "check-index", .key = &b, .index = 42};
  CHECK(dlk_consul_op(&body, &lock) && dlk_consul_op(&body, &check));
  CHECK(is(&body, "[{\"KV\":{\"Verb\":\"lock\",\"Key\":\"a/\\\"b\",\"Value\":"
                  "\"dg==\",\"Session\":\"s-1\",\"Index\":0}},{\"KV\":{"
                  "\"Verb\":\"check-index\",\"Key\":\"\xc3\xa4\",\"Index\":42"
                  "}}"));
}

TEST(a_key_that_is_no_utf8_is_refused) {
  struct dlk_buf body = {0};
  const struct dlk_buf key = of("a\xff");
  const struct dlk_consul_op op = {.verb = "set", .key = &key};
  CHECK(!dlk_consul_op(&body, &op));
  dlk_buf_free(&body);
}

TEST(values_of_any_length_come_back) {
  static const char bytes[] = "\0\1\xff\xfe\x80zZ09+/~";
  for (size_t n = 0; n < sizeof bytes; n++) {
    struct dlk_buf body = {0}, text = {0}, back = {0};
    const struct dlk_buf key = of("k");
    const struct dlk_consul_op op = {
        .verb = "set", .key = &key, .value = bytes, .len = n};
    struct dlk_consul_answer a;
    CHECK(dlk_consul_op(&body, &op));
    dlk_buf_addf(&text, "{\"Results\":%.*s]}", (int)body.len, body.data);
    CHECK(dlk_consul_read(&text, &a) && a.count == 1);
    dlk_consul_value(&a.at[0], &back);
    CHECK(back.len == n && (n == 0 || memcmp(back.data, bytes, n) == 0));
    dlk_consul_free(&a);
    dlk_buf_free(&body);
    dlk_buf_free(&text);
    dlk_buf_free(&back);
  }
}

TEST(the_first_op_that_failed_is_told) {
  struct dlk_consul_answer a;
  CHECK(reads("{\"Results\":null,\"Errors\":[{\"OpIndex\":2,\"What\":\"b\"},"
              "{\"OpIndex\":1,\"What\":\"a\"}]}",
              &a));
  CHECK(a.failed == 1 && strcmp(a.why, "a") == 0 && a.count == 0);
  dlk_consul_free(&a);
}

TEST(entries_keys_and_nothing_are_read) {
  struct dlk_consul_answer a;
  CHECK(reads("[{\"Key\":\"k\",\"Flags\":16210313421097356768,\"Value\":null,"
              "\"CreateIndex\":7,\"ModifyIndex\":90000000000001}]",
              &a));
  CHECK(a.count == 1 && a.failed == -1 && a.at[0].created == 7);
  CHECK(a.at[0].modified == 90000000000001 && !a.at[0].session[0]);
  dlk_consul_free(&a);
  CHECK(reads("[\"a/\",\"b\"]", &a) && a.count == 2);
  CHECK(strcmp(a.at[0].key, "a/") == 0);
  dlk_consul_free(&a);
  CHECK(reads("", &a) && a.count == 0);
  dlk_consul_free(&a);
}

TEST(what_is_no_answer_is_refused) {
  static const char *const all[] = {
      "x", "[", "{\"Results\":", "No cluster leader", "[1e999]", "\xff"};
  struct dlk_consul_answer a;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    CHECK(!reads(all[i], &a) && a.count == 0);
  CHECK(reads("[1,null,{},[]]", &a) && a.count == 4 && !a.at[3].key[0]);
  dlk_consul_free(&a);
  CHECK(reads("{\"Results\":[{},1,{\"KV\":{\"CreateIndex\":-1}}]}", &a));
  CHECK(a.count == 3);
  dlk_consul_free(&a);
}

static bool key_is(const char *path, const char *key) {
  struct dlk_buf out = {0};
  dlk_consul_key(&out, path);
  return is(&out, key);
}

TEST(a_contenders_number_is_its_index) {
  struct dlk_buf name = {0};
  CHECK(key_is("/a/b-c/x-" GUID "-000000000000042", "a/b-c/x-" GUID));
  CHECK(key_is("/a/%3A%2F/xk-" GUID "-", "a/,3A,2F/xk-" GUID));
  dlk_consul_name(&name, "p2.10-" GUID, 42);
  CHECK(strcmp(name.data, "p2.10-" GUID "-000000000000042") == 0);
  dlk_buf_free(&name);
}

TEST(a_stand_ins_name_is_its_key) {
  struct dlk_buf name = {0};
  const char *path = "/l/s1k1700-" GUID "-000000000000042";
  CHECK(key_is(path, path + 1));
  dlk_consul_name(&name, path + 3, 50);
  CHECK(strcmp(name.data, path + 3) == 0);
  dlk_buf_free(&name);
}

TEST(a_lock_may_have_any_name) {
  static const char *const keys[] = {"..", ".", "a..", "a.b", "x:%/,\xff"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    struct dlk_buf path = {0}, prefix = {0}, back = {0}, key = {0};
    dlk_buf_addf(&path, "/");
    dlk_ss_escape(&path, keys[i], strlen(keys[i]));
    dlk_buf_add(&path, "", 1);
    dlk_consul_prefix(&prefix, path.data);
    dlk_buf_add(&prefix, "", 1);
    CHECK(!strpbrk(prefix.data, "%~:") && !strstr(prefix.data, "./"));
    dlk_consul_lock(&back, prefix.data, prefix.len - 2);
    CHECK(dlk_ss_unescape(&key, back.data) && is(&key, keys[i]));
    dlk_buf_free(&path);
    dlk_buf_free(&prefix);
    dlk_buf_free(&back);
  }
}

int main(void) {
  return check_all();
}
