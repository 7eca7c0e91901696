/* The table in a key's file is valid after each write, because a process may be
 * killed between any two instructions.
 *
 * Layout: two headers in the first page, the key, the slots. A header's overlay
 * has copies of the slots that its commit changed.
 *
 * T1  The valid header with the larger sequence number counts; of each slot its
 *     copy in the overlay, else its own place.
 * T2  A commit first writes the slots that the new overlay lacks to their own
 *     places, which the current header shadows.
 * T3  Then it writes the other header in one write. Until that is complete its
 *     checksum is wrong, and the current header stands.
 *
 * The next commit repeats an unfinished one. A reader without the mutex may see
 * half of a write: its checksum tells (EUCLEAN). Checksums do not guard against
 * malice. */
#include "store/file/format/table.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/quiet.h"

#define MAGIC UINT64_C(0x3130656c6966646c) /* "ldfile01" */
#define HEADER 2048
#define KEY_AT 4096
#define SLOTS_AT 8192
#define STRIDE 2048
#define VALUE_AT 512

_Static_assert(sizeof(struct dlk_file_block) <= HEADER, "header too large");
_Static_assert(sizeof(struct dlk_file_head) % 8 == 0, "header not in words");
_Static_assert(sizeof(struct dlk_file_slot) % 8 == 0, "slot not in words");
_Static_assert(sizeof(struct dlk_file_slot) <= VALUE_AT, "slot too large");
_Static_assert(VALUE_AT + DLK_FILE_VALUE <= STRIDE, "value too large");

static uint64_t mix(uint64_t sum, const void *data, size_t n) {
  const unsigned char *p = data;
  for (size_t i = 0; i < n; i += 8) {
    uint64_t word;
    memcpy(&word, p + i, 8);
    sum = (sum ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    sum ^= sum >> 29;
  }
  return sum;
}

static uint32_t slot_sum(const struct dlk_file_slot *s, uint32_t index) {
  struct dlk_file_slot copy = *s;
  copy.check = 0;
  return (uint32_t)(mix(index, &copy, sizeof copy) >> 32);
}

static size_t block_size(const struct dlk_file_block *b) {
  return sizeof b->head + b->head.overlay * sizeof b->slot[0];
}

static uint64_t block_sum(struct dlk_file_block *b) {
  b->head.check = 0;
  return mix(MAGIC, b, block_size(b));
}

static int write_all(int fd, const void *data, size_t n, off_t at) {
  const char *p = data;
  while (n > 0) {
    ssize_t done = dlk_quiet_pwrite(fd, p, n, at);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return done < 0 ? errno : EIO;
    p += done;
    n -= (size_t)done;
    at += done;
  }
  return 0;
}

/* Bytes beyond the end read as zeros. */
static int read_all(int fd, void *out, size_t n, off_t at) {
  char *p = out;
  while (n > 0) {
    ssize_t done = pread(fd, p, n, at);
    if (done < 0 && errno == EINTR)
      continue;
    if (done < 0)
      return errno;
    if (done == 0) {
      memset(p, 0, n);
      return 0;
    }
    p += done;
    n -= (size_t)done;
    at += done;
  }
  return 0;
}

static bool block_valid(struct dlk_file_block *b) {
  if (b->head.magic != MAGIC || b->head.overlay > DLK_FILE_OVERLAY)
    return false;
  uint64_t check = b->head.check;
  bool ok = check == block_sum(b);
  b->head.check = check;
  return ok;
}

static off_t slot_at(uint32_t index) {
  return SLOTS_AT + (off_t)(index - 1) * STRIDE;
}

static void reset(struct dlk_file_table *t, int fd) {
  t->fd = fd;
  t->error = 0;
  t->changed = t->torn = false;
  t->evict = 0;
  for (size_t i = 0; i < DLK_FILE_ITEMS; i++)
    t->item[i].index = 0;
}

static bool zeros(const void *data, size_t n) {
  const unsigned char *p = data;
  return p[0] == 0 && memcmp(p, p + 1, n - 1) == 0;
}

/* Whether `old` is the header before this one; zeros before the first. */
static bool follows(const struct dlk_file_block *b, struct dlk_file_block *old,
                    size_t size) {
  if (b->head.seq == 1)
    return zeros(old, size);
  return old->head.seq + 1 == b->head.seq && block_valid(old);
}

int dlk_file_table_load(struct dlk_file_table *t, int fd) {
  union {
    struct dlk_file_block block;
    char space[HEADER];
  } copy[2];
  reset(t, fd);
  memset(&t->head, 0, sizeof t->head);
  int error = read_all(fd, copy, sizeof copy, 0);
  if (error != 0)
    return t->error = error;
  uint64_t seq[2] = {copy[0].block.head.seq, copy[1].block.head.seq};
  int newer = seq[1] > seq[0];
  if (!block_valid(&copy[newer].block))
    newer = !newer;
  const struct dlk_file_block *b = &copy[newer].block;
  if (block_valid(&copy[newer].block)) {
    t->copy = newer;
    t->torn = !follows(b, &copy[!newer].block, HEADER);
    t->head = b->head;
    for (uint32_t i = 0; i < b->head.overlay; i++) {
      t->item[i].index = b->head.index[i];
      t->item[i].shadowed = true;
      t->item[i].dirty = false;
      t->item[i].slot = b->slot[i];
    }
    return 0;
  }
  if (zeros(copy, sizeof copy))
    return t->error = ENODATA;
  bool ours =
      copy[0].block.head.magic == MAGIC || copy[1].block.head.magic == MAGIC;
  return t->error = ours ? EUCLEAN : EPROTO;
}

int dlk_file_table_wipe(int fd) {
  static const char nothing[2 * HEADER];
  return write_all(fd, nothing, sizeof nothing, 0);
}

void dlk_file_table_make(struct dlk_file_table *t, int fd, int64_t fence,
                         const uint8_t boot[16]) {
  uint64_t seq = t->head.magic == MAGIC ? t->head.seq : 0;
  reset(t, fd);
  memset(&t->head, 0, sizeof t->head);
  t->head.magic = MAGIC;
  t->head.seq = seq;
  t->head.fence = fence;
  memcpy(t->head.boot, boot, 16);
  t->changed = true;
}

static struct dlk_file_item *find(struct dlk_file_table *t, uint32_t index) {
  for (size_t i = 0; i < DLK_FILE_ITEMS; i++)
    if (t->item[i].index == index)
      return &t->item[i];
  return NULL;
}

static struct dlk_file_item *fetch(struct dlk_file_table *t, uint32_t index) {
  struct dlk_file_slot slot;
  if (t->error == 0 && (index == 0 || index > t->head.slots))
    t->error = EUCLEAN;
  struct dlk_file_item *item = t->error == 0 ? find(t, index) : NULL;
  if (item != NULL)
    return item;
  if (t->error == 0)
    t->error = read_all(t->fd, &slot, sizeof slot, slot_at(index));
  if (t->error == 0 && slot.check != slot_sum(&slot, index))
    t->error = EUCLEAN;
  if (t->error != 0) {
    memset(&t->scratch, 0, sizeof t->scratch);
    return &t->scratch;
  }
  item = find(t, 0);
  /* The overlays leave at least half of the places free. */
  while (item == NULL) {
    struct dlk_file_item *next = &t->item[t->evict++ % DLK_FILE_ITEMS];
    if (!next->dirty && !next->shadowed)
      item = next;
  }
  item->index = index;
  item->shadowed = item->dirty = false;
  item->slot = slot;
  return item;
}

const struct dlk_file_slot *dlk_file_table_at(struct dlk_file_table *t,
                                              uint32_t index) {
  return &fetch(t, index)->slot;
}

struct dlk_file_slot *dlk_file_table_edit(struct dlk_file_table *t,
                                          uint32_t index) {
  struct dlk_file_item *item = fetch(t, index);
  item->dirty = t->changed = true;
  return &item->slot;
}

int dlk_file_table_commit(struct dlk_file_table *t) {
  if (t->error != 0 || !t->changed)
    return t->error;
  for (size_t i = 0; i < DLK_FILE_ITEMS && t->error == 0; i++) {
    struct dlk_file_item *item = &t->item[i];
    if (item->index == 0 || !item->shadowed || item->dirty)
      continue;
    t->error =
        write_all(t->fd, &item->slot, sizeof item->slot, slot_at(item->index));
    item->shadowed = t->error != 0;
  }
  struct dlk_file_block block;
  block.head = t->head;
  block.head.seq++;
  uint32_t n = 0;
  for (size_t i = 0; i < DLK_FILE_ITEMS && t->error == 0; i++) {
    struct dlk_file_item *item = &t->item[i];
    if (item->index == 0 || !item->dirty)
      continue;
    if (n == DLK_FILE_OVERLAY)
      return t->error = EOVERFLOW;
    item->slot.check = slot_sum(&item->slot, item->index);
    block.head.index[n] = item->index;
    block.slot[n++] = item->slot;
  }
  if (t->error != 0)
    return t->error;
  block.head.overlay = n;
  block.head.check = block_sum(&block);
  t->error =
      write_all(t->fd, &block, block_size(&block), t->copy == 0 ? HEADER : 0);
  if (t->error != 0)
    return t->error;
  t->copy = !t->copy;
  t->head = block.head;
  t->changed = false;
  for (size_t i = 0; i < DLK_FILE_ITEMS; i++)
    if (t->item[i].dirty) {
      t->item[i].dirty = false;
      t->item[i].shadowed = true;
    }
  return 0;
}

bool dlk_file_table_full(const struct dlk_file_table *t) {
  size_t n = 0;
  for (size_t i = 0; i < DLK_FILE_ITEMS; i++)
    n += t->item[i].index != 0 && t->item[i].dirty;
  return n + 4 > DLK_FILE_OVERLAY;
}

int dlk_file_table_room(struct dlk_file_table *t) {
  return dlk_file_table_full(t) ? dlk_file_table_commit(t) : t->error;
}

static void account(struct dlk_file_table *t, const struct dlk_file_slot *s,
                    bool in) {
  if (s->units == 0)
    t->head.exclusive += in ? 1u : UINT32_MAX;
  else
    t->head.used += in ? s->units : -(uint64_t)s->units;
}

void dlk_file_table_append(struct dlk_file_table *t, uint32_t index,
                           enum dlk_file_list list) {
  struct dlk_file_head *h = &t->head;
  struct dlk_file_slot *s = dlk_file_table_edit(t, index);
  s->list = (uint8_t)list;
  s->next = 0;
  s->prev = h->last[list];
  if (s->prev != 0)
    dlk_file_table_edit(t, s->prev)->next = index;
  else
    h->first[list] = index;
  h->last[list] = index;
  h->count[list]++;
  if (list == DLK_FILE_HELD)
    account(t, s, true);
}

void dlk_file_table_unlink(struct dlk_file_table *t, uint32_t index) {
  struct dlk_file_head *h = &t->head;
  struct dlk_file_slot *s = dlk_file_table_edit(t, index);
  if (t->error == 0 && s->list >= DLK_FILE_LISTS)
    t->error = EUCLEAN;
  if (t->error != 0)
    return;
  if (s->next != 0)
    dlk_file_table_edit(t, s->next)->prev = s->prev;
  else
    h->last[s->list] = s->prev;
  if (s->prev != 0)
    dlk_file_table_edit(t, s->prev)->next = s->next;
  else
    h->first[s->list] = s->next;
  h->count[s->list]--;
  if (s->list == DLK_FILE_HELD)
    account(t, s, false);
  s->next = s->prev = 0;
}

/* The free list is a stack: a key with one user reuses one slot. */
uint32_t dlk_file_table_take(struct dlk_file_table *t) {
  uint32_t index = t->head.last[DLK_FILE_FREE];
  if (t->error != 0)
    return 0;
  if (index != 0) {
    dlk_file_table_unlink(t, index);
  } else {
    struct dlk_file_slot empty = {0};
    index = t->head.slots + 1;
    empty.check = slot_sum(&empty, index);
    t->error = write_all(t->fd, &empty, sizeof empty, slot_at(index));
    if (t->error != 0)
      return 0;
    t->head.slots = index;
    t->changed = true;
  }
  memset(dlk_file_table_edit(t, index), 0, sizeof(struct dlk_file_slot));
  return t->error == 0 ? index : 0;
}

void dlk_file_table_drop(struct dlk_file_table *t, uint32_t index) {
  dlk_file_table_unlink(t, index);
  if (t->error != 0)
    return;
  memset(dlk_file_table_edit(t, index), 0, sizeof(struct dlk_file_slot));
  dlk_file_table_append(t, index, DLK_FILE_FREE);
}

struct named {
  uint64_t len;
  char key[DLK_FILE_NAMED];
};

int dlk_file_table_set_key(int fd, const char *key, size_t len) {
  struct named n = {.len = len};
  memcpy(n.key, key, len);
  return write_all(fd, &n, offsetof(struct named, key) + len, KEY_AT);
}

long dlk_file_table_get_key(int fd, char out[DLK_FILE_NAMED]) {
  struct named n;
  int error = read_all(fd, &n, sizeof n, KEY_AT);
  if (error != 0)
    return -error;
  if (n.len > sizeof n.key)
    return -EUCLEAN;
  memcpy(out, n.key, n.len);
  return (long)n.len;
}

int dlk_file_table_set_value(int fd, uint32_t index, const char *value,
                             size_t len) {
  return write_all(fd, value, len, slot_at(index) + VALUE_AT);
}

long dlk_file_table_get_value(int fd, uint32_t index, size_t len,
                              char out[DLK_FILE_VALUE]) {
  if (len > DLK_FILE_VALUE)
    return -EUCLEAN;
  int error = read_all(fd, out, len, slot_at(index) + VALUE_AT);
  return error != 0 ? -error : (long)len;
}
