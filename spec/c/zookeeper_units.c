/* Unit tests of the ZooKeeper store's pure parts: names, the admission and
 * watch rule, the chain of confirms. Prints "ok NAME" or "not ok NAME: why"
 * for each; spec/zookeeper/units_spec.lua compiles and runs it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/session/life/proof.h"
#include "store/session/recipe/queue.h"
#include "store/zookeeper/confirm.h"
#include "store/zookeeper/path.h"

static const char *why;

#define CHECK(x)                                                               \
  do {                                                                         \
    if (!(x)) {                                                                \
      static char text[300];                                                   \
      snprintf(text, sizeof text, "line %d: %s", __LINE__, #x);                \
      why = text;                                                              \
      return;                                                                  \
    }                                                                          \
  } while (0)

static uint32_t seed = 12345;

static uint32_t roll(uint32_t n) {
  seed = seed * 1664525u + 1013904223u;
  return (seed >> 8) % n;
}

/* ---- names ---- */

static void names_of_keys(void) {
  struct dlk_buf out = {0}, back = {0};
  static const char *const fixed[][2] = {{".", "%2E"},
                                         {"..", "%2E%2E"},
                                         {"...", "..."},
                                         {"a.b", "a.b"},
                                         {"orders:42", "orders%3A42"},
                                         {"/", "%2F"},
                                         {"%", "%25"},
                                         {"\xc3\xa9", "%C3%A9"}};
  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++) {
    dlk_buf_clear(&out);
    dlk_ss_escape(&out, fixed[i][0], strlen(fixed[i][0]));
    CHECK(out.len == strlen(fixed[i][1]));
    CHECK(memcmp(out.data, fixed[i][1], out.len) == 0);
  }
  static const char *const others[] = {"%2e", "%c3%a9", "%2", "%",
                                       "%G0", "a/b",    ""};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    CHECK(!dlk_ss_unescape(&back, others[i]));
  for (int i = 0; i < 20000; i++) {
    char key[64];
    size_t len = 1 + roll(sizeof key);
    for (size_t k = 0; k < len; k++)
      key[k] = (char)(roll(4) ? roll(256) : (uint32_t) "./%\0"[roll(4)]);
    dlk_buf_clear(&out);
    dlk_buf_clear(&back);
    dlk_ss_escape(&out, key, len);
    dlk_buf_add(&out, "", 1);
    CHECK(!strchr(out.data, '/') && strlen(out.data) == out.len - 1);
    CHECK(strcmp(out.data, ".") != 0 && strcmp(out.data, "..") != 0);
    CHECK(dlk_ss_unescape(&back, out.data));
    CHECK(back.len == len && memcmp(back.data, key, len) == 0);
  }
  dlk_buf_free(&out);
  dlk_buf_free(&back);
}

/* As PathUtils.validatePath has it, which counts in UTF-16. */
static void paths_that_servers_take(void) {
  static const char *const good[] = {"",
                                     "/a",
                                     "/a/b.c",
                                     "/...",
                                     "/caf\xc3\xa9",
                                     "/\xc2\xa0",
                                     "/\xe4\xb8\xad",
                                     "/\xed\x9f\xbf",
                                     "/\xdf\xbf",
                                     "/\xef\xa4\x80",
                                     "/\xef\xbf\xaf",
                                     "/\xe0\xa0\x80"};
  static const char *const bad[] = {"a",
                                    "/",
                                    "/a/",
                                    "//a",
                                    "/.",
                                    "/..",
                                    "/a\x1f",
                                    "/\x7f",
                                    "/caf\xe9",
                                    "/\xc2\x80",
                                    "/\xc2\x9f",
                                    "/\xed\xa0\x80",
                                    "/\xee\x80\x80",
                                    "/\xef\xa3\xbf",
                                    "/\xef\xbf\xb0",
                                    "/\xef\xbf\xbf",
                                    "/\xf0\x9f\x98\x80",
                                    "/\xc0\xaf",
                                    "/\xe0\x9f\xbf",
                                    "/\xe4\xb8",
                                    "/\xe4\xb8/",
                                    "/\x80",
                                    "/\xc3"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    CHECK(dlk_zk_path_ok(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(!dlk_zk_path_ok(bad[i]));
}

static void name_of(char *out, size_t size, uint32_t units, uint32_t cap,
                    unsigned id, long seq) {
  char guid[DLK_SS_GUID + 1], base[DLK_SS_NAME_MAX];
  snprintf(guid, sizeof guid, "%032x", id);
  dlk_ss_name_format(base, units, cap, false, guid, "0123456789abcdef");
  snprintf(out, size, "%s%010ld", base, seq);
}

static void names_of_contenders(void) {
  char name[DLK_SS_NAME_MAX + 16];
  struct dlk_ss_entry e;
  name_of(name, sizeof name, 0, 0, 7, 12);
  CHECK(dlk_ss_name_parse(name, &e) && e.seq == 12 && e.units == 0);
  name_of(name, sizeof name, 3, 10, 7, -2147483648L);
  CHECK(dlk_ss_name_parse(name, &e) && e.seq == INT32_MIN);
  CHECK(e.units == 3 && e.cap == 10);
  name_of(name, sizeof name, UINT32_MAX, UINT32_MAX, 7, 2147483647L);
  CHECK(strlen(name) < DLK_SS_NAME_MAX);
  CHECK(dlk_ss_name_parse(name, &e) && e.units == UINT32_MAX);
  static const char *const bad[] = {
      "",
      "x",
      "lock-0000000001",
      "_c_1b7f3e-lock-0000000001",
      "x-00000000000000000000000000000007-0123456789abcdef-",
      "x-00000000000000000000000000000007-0123456789abcdef-12",
      "p3-00000000000000000000000000000007-0123456789abcdef-0000000001",
      "p0.3-00000000000000000000000000000007-0123456789abcdef-0000000001",
      "s99999999999-00000000000000000000000000000007-0123456789abcdef-"
      "0000000001",
      "x-00000000000000000000000000000007-0123456789abcdef-9999999999",
      "x-00000000000000000000000000000007-0123456789abcdef-0000000001x",
      "x-00000000000000000000000000000007-0123456789abcdef-0000000001-2",
      "xk0-00000000000000000000000000000007-0123456789abcdef-0000000001",
      "xk1234567890123456789-00000000000000000000000000000007-"
      "0123456789abcdef-0000000001",
      "x5-00000000000000000000000000000007-0123456789abcdef-0000000001"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CHECK(!dlk_ss_name_parse(bad[i], &e));
}

/* ---- the queue ---- */

struct list {
  char text[64][DLK_SS_NAME_MAX + 16];
  char *names[64];
  size_t count;
};

static void add_standin(struct list *l, uint32_t units, unsigned id, long seq,
                        int64_t until_ms) {
  char name[DLK_SS_NAME_MAX + 16];
  struct dlk_ss_entry e;
  name_of(name, sizeof name, units, 0, id, seq);
  CHECK(dlk_ss_name_parse(name, &e) && !e.keeps);
  char *to = l->text[l->count];
  dlk_ss_name_standin(to, &e, until_ms);
  CHECK(dlk_ss_name_parse(to, &e) && e.keeps && e.until_ms == until_ms);
  l->names[l->count++] = to;
}

static void add(struct list *l, uint32_t units, uint32_t cap, unsigned id,
                long seq) {
  char *to = l->text[l->count];
  name_of(to, sizeof l->text[0], units, cap, id, seq);
  l->names[l->count++] = to;
}

static enum dlk_ss_verdict verdict(const struct list *l, unsigned id,
                                   struct dlk_ss_judgement *j,
                                   char watched[16][DLK_SS_NAME_MAX + 16]) {
  struct dlk_ss_queue q;
  char guid[DLK_SS_GUID + 1];
  snprintf(guid, sizeof guid, "%032x", id);
  if (!dlk_ss_queue_read(&q, l->names, l->count))
    abort();
  size_t place = 0;
  while (place < q.count && memcmp(q.at[place].guid, guid, DLK_SS_GUID) != 0)
    place++;
  dlk_ss_queue_judge(&q, place, j);
  for (size_t i = 0; watched && i < j->watch_count; i++)
    strcpy(watched[i], q.at[j->watch[i]].name);
  dlk_ss_queue_free(&q);
  return j->verdict;
}

static void four_in_order(const long *seqs) {
  struct list l = {.count = 0};
  struct dlk_ss_judgement j;
  char watched[16][DLK_SS_NAME_MAX + 16];
  for (unsigned i = 0; i < 4; i++)
    add(&l, 0, 0, (i + 2) % 4 + 1, seqs[(i + 2) % 4]);
  CHECK(verdict(&l, 1, &j, NULL) == DLK_SS_HOLDS);
  for (unsigned id = 2; id <= 4; id++) {
    struct dlk_ss_entry e;
    CHECK(verdict(&l, id, &j, watched) == DLK_SS_WATCH_NODES);
    CHECK(j.watch_count == 1 && dlk_ss_name_parse(watched[0], &e));
    char guid[DLK_SS_GUID + 1];
    snprintf(guid, sizeof guid, "%032x", id - 1);
    CHECK(memcmp(e.guid, guid, DLK_SS_GUID) == 0);
  }
  CHECK(verdict(&l, 9, &j, NULL) == DLK_SS_ABSENT);
}

/* The counter wraps to -2147483648, and in time to 0 again. */
static void order_across_the_wrap(void) {
  static const long seqs[][4] = {
      {7, 8, 9, 10},
      {2147483646, 2147483647, -2147483647L - 1, -2147483647},
      {-2, -1, 0, 1}};
  for (size_t i = 0; i < 3 && !why; i++)
    four_in_order(seqs[i]);
}

/* A waiter that watched only the node ahead would sleep for ever when another
 * holder leaves. */
static void semaphore_watches(void) {
  struct list l = {.count = 0};
  struct dlk_ss_judgement j;
  add(&l, 1, 2, 1, 1);
  add(&l, 1, 2, 2, 2);
  add(&l, 1, 2, 3, 3);
  CHECK(verdict(&l, 2, &j, NULL) == DLK_SS_HOLDS);
  CHECK(verdict(&l, 3, &j, NULL) == DLK_SS_WATCH_NODES);
  CHECK(j.watch_count == 2);
  l.count = 0;
  for (unsigned i = 1; i <= 20; i++)
    add(&l, 1, 19, i, (long)i);
  CHECK(verdict(&l, 20, &j, NULL) == DLK_SS_WATCH_LIST);
  l.count = 0;
  add(&l, 1, 2, 1, 1);
  add(&l, 1, 3, 2, 2);
  CHECK(verdict(&l, 2, &j, NULL) == DLK_SS_OTHER_LIMIT);
}

/* The rule itself, in its plainest form. */
static bool fits(const struct list *l, size_t me) {
  struct dlk_ss_entry mine, other;
  uint64_t sum = 0;
  dlk_ss_name_parse(l->names[me], &mine);
  for (size_t i = 0; i < l->count; i++) {
    dlk_ss_name_parse(l->names[i], &other);
    if (i == me || !dlk_ss_seq_before(other.seq, mine.seq))
      continue;
    if (mine.units == 0 || other.units == 0)
      return false;
    sum += other.units;
  }
  return mine.cap == 0 || sum + mine.units <= mine.cap;
}

static struct list without(const struct list *l, uint64_t gone) {
  struct list out = {.count = 0};
  for (size_t i = 0; i < l->count; i++)
    if (!(gone >> i & 1)) {
      strcpy(out.text[out.count], l->text[i]);
      out.names[out.count] = NULL;
      out.count++;
    }
  return out;
}

static void point(struct list *l) {
  for (size_t i = 0; i < l->count; i++)
    l->names[i] = l->text[i];
}

/* Who holds is who fits; and as long as everything that a waiter watches is
 * there, it does not fit, whatever else goes. */
static void rule_and_watches_by_chance(void) {
  static struct list l, less;
  struct dlk_ss_judgement j;
  char watched[16][DLK_SS_NAME_MAX + 16];
  for (int round = 0; round < 20000; round++) {
    uint32_t cap = roll(2) ? 1 + roll(8) : 0;
    unsigned n = 1 + roll(12);
    long base = (long)(int32_t)(roll(2) ? 2147483640u : roll(1000));
    l.count = 0;
    for (unsigned i = 0; i < n; i++)
      add(&l, roll(4) ? 1 + roll(cap ? cap : 3) : 0, cap, i + 1,
          (long)(int32_t)((uint32_t)base + i));
    for (unsigned i = 0; i < n; i++) {
      struct dlk_ss_entry e;
      dlk_ss_name_parse(l.names[i], &e);
      if (e.units == 0)
        name_of(l.text[i], sizeof l.text[0], 0, 0, i + 1, e.seq);
    }
    size_t me = roll(n);
    enum dlk_ss_verdict v = verdict(&l, (unsigned)me + 1, &j, watched);
    CHECK((v == DLK_SS_HOLDS) == fits(&l, me));
    if (v != DLK_SS_WATCH_NODES)
      continue;
    CHECK(j.watch_count > 0);
    uint64_t gone = roll(1u << n);
    for (size_t i = 0; i < n; i++)
      for (size_t w = 0; w < j.watch_count; w++)
        if (i == me || strcmp(l.names[i], watched[w]) == 0)
          gone &= ~(UINT64_C(1) << i);
    char own[DLK_SS_NAME_MAX + 16];
    strcpy(own, l.names[me]);
    less = without(&l, gone);
    point(&less);
    size_t at = 0;
    while (strcmp(less.names[at], own) != 0)
      at++;
    CHECK(!fits(&less, at));
  }
}

/* ---- confirms ---- */

/* Sends and answers one at `at`; whether the horizon moved. */
static bool confirms(struct dlk_ss_proof *c, int64_t at) {
  return dlk_ss_proof_answered(c, dlk_ss_proof_sent(c, DLK_SS_PROVE, at), true,
                               at);
}

/* 17/64 of the timeout from one's answer to the next. */
#define SPACING (17 * DLK_SEC / 8)

static void chain_of_confirms(void) {
  struct dlk_ss_proof c = {0};
  int64_t s = DLK_SEC, t = 100 * s, timeout = 8 * s;
  int64_t margin = timeout - dlk_lease_deadline(0, timeout);
  dlk_ss_proof_start(&c, &dlk_zk_confirm, t, timeout);
  CHECK(c.horizon == t + timeout - margin);
  int64_t sent[8];
  for (int k = 0; k < 8; k++) {
    sent[k] = t + (k + 1) * (SPACING + s / 2);
    uint32_t token = dlk_ss_proof_sent(&c, DLK_SS_PROVE, sent[k]);
    CHECK(token != 0);
    CHECK(dlk_ss_proof_sent(&c, DLK_SS_PROVE, sent[k] + s) == 0);
    CHECK(!dlk_ss_proof_answered(&c, token + 1, true, sent[k]));
    int64_t answered = sent[k] + s / 2;
    CHECK(dlk_ss_proof_answered(&c, token, true, answered) == (k >= 2));
    CHECK(dlk_ss_proof_sent(&c, DLK_SS_PROVE, answered + SPACING - 1) == 0);
    int64_t expected = k < 2 ? t : sent[k - 2];
    CHECK(c.horizon == expected + timeout - margin);
  }
}

/* The first one of a connection proves the last one of those before it, and
 * then the chain begins: the second proves no more. */
static void a_new_connection_proves_the_last_answer(void) {
  struct dlk_ss_proof c = {0};
  int64_t t = 100 * DLK_SEC, timeout = 8 * DLK_SEC;
  dlk_ss_proof_start(&c, &dlk_zk_confirm, t, timeout);
  for (int k = 1; k <= 4; k++)
    confirms(&c, t + k * SPACING);
  int64_t last = t + 4 * SPACING, kept = c.horizon;
  CHECK(dlk_ss_proof_sent(&c, DLK_SS_PROVE, last + SPACING) != 0);
  int64_t again = last + SPACING + DLK_SEC;
  for (int cuts = 0; cuts < 3; cuts++) {
    dlk_ss_proof_restart(&c);
    CHECK(c.horizon == kept && dlk_ss_proof_due(&c) == 0);
  }
  CHECK(confirms(&c, again));
  CHECK(c.horizon == dlk_lease_deadline(last, timeout));
  CHECK(!confirms(&c, again + SPACING));
  CHECK(confirms(&c, again + 2 * SPACING));
  CHECK(c.horizon == dlk_lease_deadline(again, timeout));
}

static void answers_that_do_not_count(void) {
  struct dlk_ss_proof c = {0};
  int64_t s = DLK_SEC;
  dlk_ss_proof_start(&c, &dlk_zk_confirm, 0, 8 * s);
  int64_t first = c.horizon;
  uint32_t old = dlk_ss_proof_sent(&c, DLK_SS_PROVE, s);
  dlk_ss_proof_restart(&c);
  uint32_t fresh = dlk_ss_proof_sent(&c, DLK_SS_PROVE, s);
  CHECK(old != fresh);
  CHECK(!dlk_ss_proof_answered(&c, old, true, s));
  CHECK(!dlk_ss_proof_answered(&c, fresh, false, s));
  CHECK(c.sent[1] == 0 && c.horizon == first);
  CHECK(!dlk_ss_proof_answered(&c, 0, true, s));
}

/* A session that is said to sustain a hold does so until the chain arrives,
 * however the confirms before it were spaced, and over however many cuts. */
static void sustains_until_the_chain_arrives(void) {
  int64_t s = DLK_SEC, timeout = 8 * s, rtt = s / 10;
  for (int round = 0; round < 20000; round++) {
    struct dlk_ss_proof c = {0};
    int64_t now = s;
    dlk_ss_proof_start(&c, &dlk_zk_confirm, now, timeout);
    for (uint32_t k = roll(4); k > 0; k--) {
      now += SPACING + (int64_t)roll(3000) * DLK_MS;
      confirms(&c, now);
      if (roll(4) == 0)
        dlk_ss_proof_restart(&c);
    }
    now += SPACING + (int64_t)roll(6000) * DLK_MS;
    if (!dlk_ss_proof_sustains(&c, now))
      continue;
    for (int k = 0; k < 6; k++) {
      uint32_t token = dlk_ss_proof_sent(&c, DLK_SS_PROVE, now);
      CHECK(token != 0);
      now += rtt;
      CHECK(now < c.horizon);
      dlk_ss_proof_answered(&c, token, true, now);
      now += SPACING;
    }
  }
}

/* In its holder's place, and beside it not at all. */
static void a_stand_in_counts_when_its_holder_is_gone(void) {
  for (int gone = 0; gone < 2; gone++) {
    struct list l = {.count = 0};
    struct dlk_ss_queue q;
    struct dlk_ss_judgement j;
    add(&l, 1, 0, 3, 9);
    add_standin(&l, 0, 1, 7, 5000);
    if (!gone)
      add(&l, 0, 0, 1, 7);
    CHECK(verdict(&l, 3, &j, NULL) == DLK_SS_WATCH_NODES);
    CHECK(dlk_ss_queue_read(&q, l.names, l.count) && q.count == 2);
    CHECK(q.at[0].until_ms == (gone ? 5000 : 0));
    CHECK(dlk_ss_queue_first_end(&q, &j) == (gone ? 5000 : 0));
    dlk_ss_queue_take_out(&q, 0);
    CHECK(q.count == 1 && q.at[0].seq == 9);
    dlk_ss_queue_free(&q);
  }
}

int main(void) {
  static const struct {
    const char *name;
    void (*run)(void);
  } tests[] = {
      {"a_stand_in_counts_when_its_holder_is_gone",
       a_stand_in_counts_when_its_holder_is_gone},
      {"names_of_keys", names_of_keys},
      {"paths_that_servers_take", paths_that_servers_take},
      {"names_of_contenders", names_of_contenders},
      {"order_across_the_wrap", order_across_the_wrap},
      {"semaphore_watches", semaphore_watches},
      {"rule_and_watches_by_chance", rule_and_watches_by_chance},
      {"chain_of_confirms", chain_of_confirms},
      {"a_new_connection_proves_the_last_answer",
       a_new_connection_proves_the_last_answer},
      {"answers_that_do_not_count", answers_that_do_not_count},
      {"sustains_until_the_chain_arrives", sustains_until_the_chain_arrives}};
  int failed = 0;
  for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
    why = NULL;
    tests[i].run();
    if (why)
      printf("not ok %s: %s\n", tests[i].name, why);
    else
      printf("ok %s\n", tests[i].name);
    failed += why != NULL;
  }
  return failed > 0;
}
