/* Unit tests of csrc/core: each container against a plain model, each text
 * against what it must say. Linked with --wrap=malloc, so that there can be no
 * memory. */
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "core/buf.h"
#include "core/clock.h"
#include "core/heap.h"
#include "core/list.h"
#include "core/map.h"
#include "core/pool.h"
#include "core/status.h"
#include "core/value.h"

static bool same(const char *a, const char *b) {
  return strcmp(a, b) == 0;
}

static bool starts(const char *s, const char *with) {
  return strncmp(s, with, strlen(with)) == 0;
}

/* ---- status ---- */

TEST(code_names) {
  const char *const names[] = {
      "ok",     "busy",    "timeout", "cancelled", "lost",        "unavailable",
      "denied", "invalid", "closed",  "forked",    "unsupported",
  };
  CHECK(DLK_CODES == sizeof names / sizeof names[0]);
  for (unsigned i = 0; i < DLK_CODES; i++)
    CHECK(same(dlk_code_name((enum dlk_code)i), names[i]));
  CHECK(dlk_code_name((enum dlk_code)99) != NULL);
}

TEST(error_texts) {
  struct dlk_error err = {.code = DLK_OK};
  CHECK(dlk_error_set(&err, DLK_BUSY, "%s is held", "'k'") == DLK_BUSY);
  CHECK(err.code == DLK_BUSY);
  CHECK(same(err.text, "busy: 'k' is held"));
  CHECK(dlk_error_set(NULL, DLK_LOST, "%s", "x") == DLK_LOST);
  char text[1000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  dlk_error_set(&err, DLK_INVALID, "%s", text);
  CHECK(strlen(err.text) == sizeof err.text - 1);
  CHECK(starts(err.text, "invalid: xxx"));
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);

static bool no_memory;

void *__wrap_malloc(size_t size) {
  return no_memory ? NULL : __real_malloc(size);
}

TEST(kept_errors) {
  CHECK(dlk_error_keep(NULL) == NULL);
  for (unsigned i = 0; i <= DLK_CODES; i++) { /* and one that is none */
    enum dlk_code code = (enum dlk_code)i;
    struct dlk_error err;
    dlk_error_set(&err, code, "why");
    const struct dlk_error *full = dlk_error_keep(&err);
    no_memory = true;
    const struct dlk_error *bare[2] = {dlk_error_keep(&err),
                                       dlk_error_keep(&err)};
    no_memory = false;
    CHECK(full && full != &err && full->code == code);
    CHECK(same(full->text, err.text));
    CHECK(bare[0] && bare[0]->code == (i < DLK_CODES ? code : DLK_UNAVAILABLE));
    CHECK(starts(bare[0]->text, dlk_code_name(code)));
    CHECK(bare[0]->text[strlen(dlk_code_name(code))] == ':');
    for (int k = 0; k < 2; k++) { /* one is not the other's */
      CHECK(starts(bare[k]->text, dlk_code_name(code)));
      dlk_error_drop(&bare[k]);
      CHECK(bare[k] == NULL);
    }
    dlk_error_drop(&full);
    dlk_error_drop(&full);
    CHECK(full == NULL);
  }
}

TEST(quoting) {
  char out[DLK_QUOTED_MAX];
  CHECK(same(dlk_quote(out, "orders:42", 9), "'orders:42'"));
  CHECK(same(dlk_quote(out, "", 0), "the store"));
  CHECK(same(dlk_quote(out, NULL, 0), "the store"));
  CHECK(
      same(dlk_quote(out, "a\0\n\xff'\\", 6), "'a\\x00\\x0a\\xff\\x27\\x5c'"));
  char all[512];
  for (int i = 0; i < 512; i++)
    all[i] = (char)i;
  for (size_t n = 1; n <= 512; n++) {
    for (int from = 0; from < 2; from++) {
      dlk_quote(out, all + (from ? 512 - n : 0), n);
      size_t len = strlen(out);
      CHECK(len < DLK_QUOTED_MAX && out[0] == '\'');
      CHECK(out[len - 1] == '\'');
    }
  }
  char plain[512];
  memset(plain, 'p', sizeof plain);
  dlk_quote(out, plain, sizeof plain);
  CHECK(same(out + strlen(out) - 5, "p...'"));
}

/* ---- clock ---- */

/* Instead of the C library's: which clock is asked cannot be seen otherwise on
 * a machine that never sleeps. */
static clockid_t asked;

int clock_gettime(clockid_t id, struct timespec *ts) {
  asked = id;
  return (int)syscall(SYS_clock_gettime, id, ts);
}

TEST(times) {
  int64_t a = dlk_clock_now(), b = dlk_clock_now();
  CHECK(a > 0 && b >= a);
  CHECK(asked == CLOCK_BOOTTIME);
  CHECK(dlk_time_add(1, 2) == 3);
  CHECK(dlk_time_add(DLK_FOREVER, 0) == DLK_FOREVER);
  CHECK(dlk_time_add(DLK_FOREVER, 5) == DLK_FOREVER);
  CHECK(dlk_time_add(5, DLK_FOREVER) == DLK_FOREVER);
  CHECK(dlk_time_add(DLK_FOREVER - 1, 1) == DLK_FOREVER);
  CHECK(dlk_time_add(-5, 3) == -2);
  CHECK(dlk_time_add(5, -3) == 2);
  CHECK(dlk_time_add(1, -DLK_SEC) == 1 - DLK_SEC);
  CHECK(dlk_to_ms(0) == 1);
  CHECK(dlk_to_ms(1) == 1);
  CHECK(dlk_to_ms(DLK_MS) == 1);
  CHECK(dlk_to_ms(DLK_MS + 1) == 2);
  CHECK(dlk_to_ms(30 * DLK_SEC) == 30000);
  CHECK(dlk_from_seconds(0) == 0 && dlk_from_seconds(0.5) == DLK_SEC / 2);
  CHECK(dlk_from_seconds(1e300) == DLK_FOREVER);
  CHECK(dlk_poll_ms(DLK_FOREVER) == -1 && dlk_poll_ms(a) == 0);
  CHECK(dlk_poll_ms(DLK_FOREVER - 1) == INT_MAX);
  int ms = dlk_poll_ms(dlk_clock_now() + DLK_SEC);
  CHECK(ms > 0 && ms <= 1000);
}

TEST(deadlines) {
  int64_t sent = 100 * DLK_SEC;
  CHECK(dlk_lease_deadline(sent, 10 * DLK_SEC) ==
        sent + 10 * DLK_SEC - 100 * DLK_MS - 10 * DLK_MS);
  CHECK(dlk_lease_deadline(sent, DLK_FOREVER) == DLK_FOREVER);
  for (int64_t ttl = 0; ttl < DLK_SEC; ttl += 7 * DLK_MS) {
    int64_t at = dlk_lease_deadline(sent, ttl);
    CHECK(at <= sent + ttl);
    CHECK(at <= dlk_lease_deadline(sent, ttl + 7 * DLK_MS));
  }
}

/* ---- list ---- */

struct member {
  int pad;
  struct dlk_list link;
};

TEST(lists) {
  struct dlk_list l;
  struct member m[3];
  dlk_list_init(&l);
  CHECK(dlk_list_empty(&l));
  for (int i = 0; i < 3; i++)
    dlk_list_append(&l, &m[i].link);
  CHECK(DLK_CONTAINER(l.next, struct member, link) == &m[0]);
  CHECK(DLK_CONTAINER(l.prev, struct member, link) == &m[2]);
  dlk_list_remove(&m[1].link);
  dlk_list_remove(&m[1].link);
  CHECK(m[0].link.next == &m[2].link && m[2].link.prev == &m[0].link);
  CHECK(dlk_list_empty(&m[1].link));
  struct dlk_list other;
  dlk_list_take(&l, &other);
  CHECK(dlk_list_empty(&l) && other.next == &m[0].link);
  CHECK(m[0].link.prev == &other && m[2].link.next == &other);
  dlk_list_take(&other, &l);
  CHECK(dlk_list_empty(&other));
  dlk_list_remove(&m[0].link);
  dlk_list_remove(&m[2].link);
  CHECK(dlk_list_empty(&l));
  dlk_list_take(&l, &other);
  CHECK(dlk_list_empty(&l) && dlk_list_empty(&other));
}

/* ---- heap ---- */

#define NODES 300

TEST(heap_against_model) {
  static struct dlk_heap_node node[NODES];
  struct dlk_heap h = {NULL};
  memset(node, 0, sizeof node);
  for (int round = 0; round < 60000; round++) {
    struct dlk_heap_node *n = &node[check_random(NODES)];
    if (check_random(3) > 0)
      dlk_heap_put(&h, n, check_random(1000));
    else
      dlk_heap_remove(&h, n);
    if (round % 7 == 0 && dlk_heap_first(&h) != NULL)
      dlk_heap_remove(&h, dlk_heap_first(&h));
    const struct dlk_heap_node *least = NULL;
    for (int i = 0; i < NODES; i++)
      if (node[i].queued && (least == NULL || node[i].at < least->at))
        least = &node[i];
    const struct dlk_heap_node *first = dlk_heap_first(&h);
    CHECK((first == NULL) == (least == NULL));
    CHECK(first == NULL || (first->queued && first->at == least->at));
  }
}

TEST(heap_sorts) {
  enum { N = 100000 };
  struct dlk_heap_node *node = calloc(N, sizeof *node);
  struct dlk_heap h = {NULL};
  CHECK(node != NULL);
  /* Falling and rising times: the worst shapes for the depth of links. */
  for (int i = 0; i < N; i++)
    dlk_heap_put(&h, &node[i], i % 2 ? i : N - i);
  int64_t last = -1;
  int count = 0;
  while (dlk_heap_first(&h) != NULL) {
    struct dlk_heap_node *n = dlk_heap_first(&h);
    CHECK(n->at >= last);
    last = n->at;
    dlk_heap_remove(&h, n);
    dlk_heap_remove(&h, n);
    count++;
  }
  free(node);
  CHECK(count == N);
}

/* ---- map ---- */

TEST(map_against_model) {
  static struct dlk_map_node both[2][NODES]; /* of one key */
  static char key[NODES][8], copy[NODES][8];
  struct dlk_map_node *node[NODES];
  struct dlk_map m;
  bool in[NODES] = {false};
  size_t count = 0;
  memset(both, 0, sizeof both);
  dlk_map_init(&m, 12345);
  CHECK(dlk_map_get(&m, "x", 1) == NULL);
  for (uint32_t i = 0; i < NODES; i++) {
    memcpy(key[i], &i, sizeof i);
    memcpy(copy[i], &i, sizeof i);
    node[i] = &both[0][i];
  }
  for (int round = 0; round < 60000; round++) {
    uint32_t i = check_random(NODES);
    size_t len = 4 + i % 5; /* keys with NULs, one another's beginnings */
    bool replace = in[i] && check_random(2) == 0;
    if (replace) {
      struct dlk_map_node *old = node[i];
      node[i] = old == &both[0][i] ? &both[1][i] : &both[0][i];
      dlk_map_replace(&m, old, node[i], copy[i]);
      dlk_map_remove(&m, old);
      CHECK(node[i]->key == copy[i]); /* the old key's memory may go */
    } else if (in[i]) {
      dlk_map_remove(&m, node[i]);
      dlk_map_remove(&m, node[i]);
      count--;
    } else {
      CHECK(dlk_map_put(&m, node[i], key[i], len));
      count++;
    }
    in[i] = replace || !in[i];
    uint32_t j = check_random(NODES);
    const struct dlk_map_node *found = dlk_map_get(&m, key[j], 4 + j % 5);
    CHECK(found == (in[j] ? node[j] : NULL));
    CHECK(m.count == count);
  }
  dlk_map_clear(&m);
  CHECK(m.count == 0 && dlk_map_get(&m, key[0], 4) == NULL);
}

/* ---- pool ---- */

static bool is_zero(const unsigned char *p, size_t n) {
  while (n > 0 && p[n - 1] == 0)
    n--;
  return n == 0;
}

static void take_all(struct dlk_pool *p, void **block, size_t n, size_t size) {
  for (size_t i = 0; i < n; i++)
    CHECK((block[i] = dlk_pool_take(p, size)) != NULL);
}

static void give_all(struct dlk_pool *p, void **block, size_t n, size_t size) {
  for (size_t i = 0; i < n; i++)
    dlk_pool_give(p, block[i], size);
}

TEST(pool_blocks) {
  struct dlk_pool p;
  void *block[5];
  dlk_pool_init(&p, 100, 3);
  for (size_t size = 1; size < 500; size += 11) {
    take_all(&p, block, 5, size);
    for (int i = 0; i < 5; i++) {
      CHECK(is_zero(block[i], size));
      memset(block[i], 'x', size);
    }
    give_all(&p, block, 5, size);
    CHECK(p.count <= 3);
  }
  /* The last size is kept: it is had also without memory. The rest was freed.
   */
  take_all(&p, block, 5, 110);
  give_all(&p, block, 5, 110);
  size_t kept = p.count;
  CHECK(kept == p.max);
  no_memory = true;
  CHECK(dlk_pool_take(&p, 100) == NULL);
  CHECK(dlk_pool_take(&p, 121) == NULL);
  take_all(&p, block, kept, 116);
  CHECK(dlk_pool_take(&p, 119) == NULL);
  no_memory = false;
  give_all(&p, block, kept, 116);
  dlk_pool_clear(&p);
  CHECK(p.count == 0);
}

/* A block that two have would not be zero, or not what its owner wrote. The
 * result: pool, or NULL. */
static void *take_and_give(void *pool) {
  uintptr_t *mine[2];
  bool fine = true;
  for (uintptr_t n = 1; n < 200000; n++) {
    for (int i = 0; i < 2; i++) {
      mine[i] = dlk_pool_take(pool, 64);
      if (!mine[i])
        return NULL;
      fine = fine && is_zero((unsigned char *)mine[i], 64);
      *mine[i] = (uintptr_t)&mine[i] ^ n;
    }
    for (int i = 0; i < 2; i++) {
      fine = fine && *mine[i] == ((uintptr_t)&mine[i] ^ n);
      dlk_pool_give(pool, mine[i], 64);
    }
  }
  return fine ? pool : NULL;
}

/* As if another thread were inside. */
TEST(pool_in_use) {
  struct dlk_pool p;
  dlk_pool_init(&p, 64, 3);
  size_t one = p.max ? 1 : 0; /* a sanitizer's pool keeps nothing */
  void *kept = dlk_pool_take(&p, 64), *given = dlk_pool_take(&p, 64);
  dlk_pool_give(&p, kept, 64);
  atomic_store(&p.busy, true);
  dlk_pool_give(&p, given, 64);
  CHECK(p.count == one);
  void *other = dlk_pool_take(&p, 64);
  CHECK(other && (other != kept || !one) && p.count == one);
  atomic_store(&p.busy, false);
  dlk_pool_give(&p, other, 64);
  CHECK(p.count == 2 * one);
  dlk_pool_clear(&p);
}

TEST(pool_of_threads) {
  struct dlk_pool p;
  pthread_t other;
  void *result;
  dlk_pool_init(&p, 64, 3);
  CHECK(pthread_create(&other, NULL, take_and_give, &p) == 0);
  CHECK(take_and_give(&p) == &p);
  pthread_join(other, &result);
  CHECK(result == &p);
  CHECK(p.count <= 3);
  dlk_pool_clear(&p);
}

/* ---- buf ---- */

TEST(buffers) {
  struct dlk_buf b = {0};
  dlk_buf_add(&b, NULL, 0);
  CHECK(b.len == 0);
  for (int i = 0; i < 1000; i++)
    dlk_buf_addf(&b, "%d,", i);
  CHECK(!b.failed && b.len == 2890 + 1000);
  CHECK(memcmp(b.data, "0,1,2,", 6) == 0);
  dlk_buf_shift(&b, 4);
  CHECK(memcmp(b.data, "2,3,", 4) == 0 && b.len == 3886);
  CHECK(memcmp(b.data + b.len - 8, "998,999,", 8) == 0);
  dlk_buf_shift(&b, b.len);
  CHECK(b.len == 0);
  char big[5000];
  memset(big, 'b', sizeof big - 1);
  big[sizeof big - 1] = '\0';
  dlk_buf_addf(&b, "<%s>", big);
  CHECK(b.len == sizeof big + 1 && b.data[0] == '<');
  CHECK(b.data[b.len - 1] == '>');
  dlk_buf_clear(&b);
  CHECK(b.len == 0 && !b.failed);
  CHECK(dlk_buf_reserve(&b, SIZE_MAX) == NULL);
  CHECK(b.failed);
  dlk_buf_add(&b, "x", 1);
  CHECK(b.len == 0);
  dlk_buf_clear(&b);
  dlk_buf_add(&b, "x", 1);
  CHECK(b.len == 1 && b.data[0] == 'x');
  dlk_buf_free(&b);
  CHECK(b.data == NULL && b.len == 0);
  dlk_buf_free(&b);
}

/* A first piece of many times the first capacity, and formatted texts of
 * every length about that of the buffer on the stack. */
TEST(buffers_of_all_sizes) {
  static char piece[70000], text[200];
  struct dlk_buf b = {0};
  dlk_buf_add(&b, piece, sizeof piece);
  CHECK(!b.failed && b.len == sizeof piece && b.cap >= b.len);
  dlk_buf_free(&b);
  for (int n = 1; n < (int)sizeof text; n++) {
    memset(text, 'a' + n % 26, (size_t)n);
    dlk_buf_clear(&b);
    dlk_buf_addf(&b, "%.*s", n, text);
    CHECK(b.len == (size_t)n && memcmp(b.data, text, b.len) == 0);
  }
  dlk_buf_free(&b);
}

/* ---- value ---- */

TEST(values) {
  struct dlk_value *v = dlk_value_map();
  struct dlk_value *l = dlk_value_list();
  for (int i = 0; i < 3; i++)
    l = dlk_value_add(l, dlk_value_int(i));
  v = dlk_value_set(v, "list", l);
  v = dlk_value_set(v, "text", dlk_value_string("a\0b", 3));
  v = dlk_value_set(v, "empty", dlk_value_string("", 0));
  v = dlk_value_set(v, "yes", dlk_value_bool(true));
  v = dlk_value_set(v, "half", dlk_value_number(0.5));
  v = dlk_value_set(v, "none", dlk_value_nil());
  CHECK(v != NULL && v->kind == DLK_VALUE_MAP);
  const struct dlk_value *c = v->u.children.first;
  CHECK(same(c->name, "list") && c->kind == DLK_VALUE_LIST);
  CHECK(c->u.children.last->u.integer == 2);
  c = c->next;
  CHECK(same(c->name, "text") && c->u.string.len == 3);
  CHECK(memcmp(c->u.string.data, "a\0b", 4) == 0);
  c = c->next;
  CHECK(c->u.string.len == 0 && c->u.string.data[0] == '\0');
  CHECK(c->next->u.boolean && c->next->next->u.number == 0.5);
  CHECK(v->u.children.last->kind == DLK_VALUE_NIL);
  dlk_value_free(v);
  dlk_value_free(NULL);
  /* A part that could not be made takes the whole with it, and no more. */
  CHECK(dlk_value_add(NULL, dlk_value_int(1)) == NULL);
  CHECK(dlk_value_set(dlk_value_map(), "x", NULL) == NULL);
  CHECK(dlk_value_add(dlk_value_tuple(), NULL) == NULL);
}

int main(void) {
  return check_all();
}
