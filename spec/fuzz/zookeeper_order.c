/* Lists of node names, as anybody may make them below a lock's node: who they
 * stand for, in which order, and who holds. Each line is a name.
 *
 * - What is formatted parses as what it was made of, what does not parse is
 *   nobody, and a key escaped is that key again.
 * - The order is a strict weak one as long as the numbers are within half of
 *   their range of each other (a queue's are), and the queue is in it.
 * - The order in which the server lists the names changes nothing.
 * - Holders fit together: at most one exclusive, of permits no more than there
 *   are; the first in line holds; whoever does not watches somebody ahead. */
#include <limits.h>

#include "input.h"
#include "store/session/format/names.h"
#include "store/session/recipe/queue.h"
#include "store/zookeeper/path.h"

#define NAMES 64

static bool before(const struct dlk_ss_entry *a, const struct dlk_ss_entry *b) {
  if (a->seq == b->seq)
    return strcmp(a->guid, b->guid) < 0;
  return dlk_ss_seq_before(a->seq, b->seq);
}

/* All numbers that wrap are within half of the range of the first one's. */
static bool comparable(const struct dlk_ss_queue *q) {
  for (size_t i = 0; i < q->count && q->at[i].seq <= INT32_MAX; i++)
    for (size_t k = 0; k < i; k++) {
      uint32_t apart = (uint32_t)q->at[i].seq - (uint32_t)q->at[0].seq;
      uint32_t other = (uint32_t)q->at[k].seq - (uint32_t)q->at[0].seq;
      if (apart + UINT32_C(0x20000000) >= UINT32_C(0x40000000) ||
          other + UINT32_C(0x20000000) >= UINT32_C(0x40000000))
        return false;
    }
  return true;
}

static void look_at_order(const struct dlk_ss_queue *q) {
  for (size_t i = 0; i < q->count; i++) {
    MUST(!before(&q->at[i], &q->at[i]));
    for (size_t k = i + 1; k < q->count; k++)
      MUST(!before(&q->at[k], &q->at[i]));
  }
}

static void look_at_watched(const struct dlk_ss_judgement *j, size_t place) {
  MUST(j->watch_count > 0 && j->watch_count <= DLK_SS_WATCH_MAX);
  for (size_t i = 0; i < j->watch_count; i++)
    MUST(j->watch[i] < place && (i == 0 || j->watch[i] < j->watch[i - 1]));
}

static void look_at_holders(const struct dlk_ss_queue *q) {
  uint64_t units = 0, holders = 0;
  bool exclusive = false, barred = false;
  for (size_t i = 0; i < q->count; i++) {
    struct dlk_ss_judgement j;
    dlk_ss_queue_judge(q, i, &j);
    const struct dlk_ss_entry *e = &q->at[i];
    /* Nobody asks for more than there is; somebody else's node may. */
    bool fits = e->cap == 0 || e->units <= e->cap;
    MUST(j.me == i && j.verdict != DLK_SS_ABSENT);
    if (j.verdict == DLK_SS_HOLDS) {
      MUST(!exclusive && !barred && (e->units != 0 || holders == 0));
      units += e->units;
      MUST(e->cap == 0 || units <= e->cap);
      exclusive = e->units == 0;
      holders++;
    } else if (j.verdict == DLK_SS_WATCH_NODES && fits) {
      look_at_watched(&j, i);
    }
    barred = barred || e->units == 0;
    barred = barred && j.verdict != DLK_SS_HOLDS;
    MUST(i > 0 || j.verdict == DLK_SS_HOLDS || !fits);
  }
  struct dlk_ss_judgement absent;
  dlk_ss_queue_judge(q, q->count, &absent);
  MUST(absent.verdict == DLK_SS_ABSENT);
}

static void look_at_entry(const struct dlk_ss_entry *e) {
  char name[DLK_SS_NAME_MAX];
  MUST(strlen(e->name) < DLK_SS_NAME_MAX);
  char guid[DLK_SS_GUID + 1], client[DLK_SS_CLIENT + 1];
  snprintf(guid, sizeof guid, "%s", e->guid);
  snprintf(client, sizeof client, "%s", e->client);
  dlk_ss_name_format(name, e->units, e->cap, e->keeps, guid, client);
  struct dlk_ss_entry again;
  char whole[DLK_SS_NAME_MAX + 16];
  snprintf(whole, sizeof whole, e->seq > INT32_MAX ? "%s%015lld" : "%s%010lld",
           name, (long long)e->seq);
  MUST(strlen(name) < dlk_ss_name_room(e->units));
  MUST(dlk_ss_name_parse(whole, &again));
  MUST(again.units == e->units && again.cap == e->cap && again.seq == e->seq);
  MUST(memcmp(again.guid, e->guid, DLK_SS_GUID) == 0);
  MUST(memcmp(again.client, e->client, DLK_SS_CLIENT) == 0);
  MUST(again.keeps == e->keeps && again.until_ms == 0);
  MUST(again.guid == whole + dlk_ss_name_guid_at(e->units, e->cap, e->keeps));
  if (e->until_ms == 0)
    return;
  struct dlk_ss_entry standin;
  dlk_ss_name_standin(name, &again, e->until_ms);
  MUST(dlk_ss_name_parse(name, &standin) && standin.keeps);
  MUST(standin.until_ms == e->until_ms && standin.seq == e->seq);
  MUST(standin.units == e->units && standin.cap == e->cap);
  MUST(strcmp(standin.guid, again.guid) == 0);
}

static void look_at_key(const char *text) {
  struct dlk_buf name = {0}, key = {0};
  dlk_ss_escape(&name, text, strlen(text));
  dlk_buf_add(&name, "", 1);
  MUST(!name.failed);
  MUST(strchr(name.data, '/') == NULL && strcmp(name.data, ".") != 0 &&
       strcmp(name.data, "..") != 0);
  MUST(text[0] == '\0' || dlk_ss_unescape(&key, name.data));
  MUST(key.len == strlen(text) &&
       memcmp(key.data ? key.data : "", text, key.len) == 0);
  dlk_buf_clear(&key);
  (void)dlk_ss_unescape(&key, text);
  dlk_buf_free(&name);
  dlk_buf_free(&key);
  (void)dlk_zk_path_ok(text);
}

/* The same names from the back are the same queue. */
static void turn_round(char *const *names, size_t count,
                       const struct dlk_ss_queue *q) {
  char *reversed[NAMES];
  struct dlk_ss_queue other;
  for (size_t i = 0; i < count; i++)
    reversed[i] = names[count - 1 - i];
  MUST(dlk_ss_queue_read(&other, reversed, count) && other.count == q->count);
  for (size_t i = 0; i < q->count; i++)
    MUST(other.at[i].seq == q->at[i].seq &&
         strcmp(other.at[i].guid, q->at[i].guid) == 0);
  dlk_ss_queue_free(&other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  char *names[NAMES];
  size_t count = 0;
  while (in.p < in.end && count < NAMES)
    names[count++] = input_text(&in, '\n');
  struct dlk_ss_queue q;
  MUST(dlk_ss_queue_read(&q, names, count) && q.count <= count);
  for (size_t i = 0; i < count; i++)
    look_at_key(names[i]);
  for (size_t i = 0; i < q.count; i++)
    look_at_entry(&q.at[i]);
  if (comparable(&q)) {
    look_at_order(&q);
    turn_round(names, count, &q);
  }
  look_at_holders(&q);
  dlk_ss_queue_free(&q);
  for (size_t i = 0; i < count; i++)
    free(names[i]);
  return 0;
}
