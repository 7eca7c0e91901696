/* The bytes of a key's file: whatever stands in it, the table is read without
 * harm, walked to an end, changed and written, and reads back as it was
 * written. The checksums would keep a fuzzer out, so the first byte says
 * whether they are made to fit. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

/* The whole file, so that the checksums are at hand. */
#include "../../csrc/store/file/format/table.c"
#include "input.h"

#define FILE_MAX (SLOTS_AT + 40 * STRIDE)
#define STEPS 64

static int fd = -1;

static void put(const void *p, size_t n, off_t at) {
  MUST(pwrite(fd, p, n, at) == (ssize_t)n);
}

/* Headers and slots from the input, each with a checksum that fits. */
static void put_blocks(struct input *in) {
  union {
    struct dlk_file_block block;
    char space[HEADER];
  } u;
  for (int copy = 0; copy < 2; copy++) {
    size_t n;
    memset(&u, 0, sizeof u);
    const char *p = input_bytes(in, sizeof u.block, &n);
    memcpy(&u.block, p, n);
    if (n == 0)
      continue;
    u.block.head.magic = MAGIC;
    u.block.head.overlay %= DLK_FILE_OVERLAY + 1;
    u.block.head.seq >>= 1; /* no file lives for 2^63 commits */
    for (uint32_t i = 0; i < u.block.head.overlay; i++)
      u.block.slot[i].check = slot_sum(&u.block.slot[i], u.block.head.index[i]);
    u.block.head.check = block_sum(&u.block);
    put(&u, sizeof u, copy * HEADER);
  }
  for (uint32_t i = 1; in->p < in->end && i < 40; i++) {
    struct dlk_file_slot slot = {0};
    size_t n;
    const char *p = input_bytes(in, sizeof slot, &n);
    memcpy(&slot, p, n);
    slot.check = slot_sum(&slot, i);
    put(&slot, sizeof slot, slot_at(i));
  }
}

/* Follows each list for as many steps as there are slots, as all do. */
static void walk(struct dlk_file_table *t) {
  for (int l = 0; l < DLK_FILE_LISTS; l++) {
    uint32_t i = t->head.first[l];
    for (int n = 0; i != 0 && n < STEPS && t->error == 0; n++)
      i = dlk_file_table_at(t, i)->next;
  }
}

static uint64_t sum_of(struct dlk_file_table *t) {
  uint64_t sum = mix(1, &t->head.fence, sizeof t->head.fence);
  sum = mix(sum, t->head.boot, sizeof t->head.boot);
  for (uint32_t i = 1; i <= t->head.slots && i < STEPS; i++) {
    struct dlk_file_slot slot = *dlk_file_table_at(t, i);
    slot.check = 0;
    sum = mix(sum, &slot, sizeof slot);
  }
  return sum;
}

static void change(struct dlk_file_table *t, struct input *in) {
  for (int n = 0; n < 8 && dlk_file_table_room(t) == 0; n++) {
    uint8_t what = input_byte(in);
    uint32_t i = what % 3 == 0 ? dlk_file_table_take(t)
                               : t->head.first[what / 3 % DLK_FILE_LISTS];
    if (i == 0)
      continue;
    if (what % 3 == 2)
      dlk_file_table_drop(t, i);
    else if (what % 3 == 1)
      dlk_file_table_unlink(t, i);
    if (what % 3 != 2)
      dlk_file_table_append(t, i, what / 16 % DLK_FILE_LISTS);
  }
  t->head.fence = (int64_t)((uint64_t)t->head.fence + 1);
  t->changed = true;
}

static void round_trip(struct dlk_file_table *t) {
  static struct dlk_file_table again;
  int64_t fence = t->head.fence;
  if (dlk_file_table_commit(t) != 0)
    return;
  uint64_t sum = sum_of(t);
  bool whole = t->error == 0;
  MUST(dlk_file_table_load(&again, fd) == 0);
  MUST(again.head.fence == fence && again.head.seq == t->head.seq);
  MUST(!whole || (sum_of(&again) == sum && again.error == 0));
}

static void look_at_rest(void) {
  char key[DLK_FILE_NAMED], value[DLK_FILE_VALUE];
  long n = dlk_file_table_get_key(fd, key);
  MUST(n == -EUCLEAN || (n >= 0 && n <= DLK_FILE_NAMED));
  MUST(dlk_file_table_get_value(fd, 1, sizeof value, value) ==
       (long)sizeof value);
  MUST(dlk_file_table_get_value(fd, 1, 65535, value) == -EUCLEAN);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct dlk_file_table t;
  struct input in = {data, data + (size < FILE_MAX ? size : FILE_MAX)};
  if (fd < 0)
    fd = memfd_create("table", MFD_CLOEXEC);
  MUST(fd >= 0 && ftruncate(fd, 0) == 0);
  uint8_t how = input_byte(&in);
  struct input changes = {in.p, in.end};
  if (how % 2 == 0) {
    put(in.p, (size_t)(in.end - in.p), 0);
  } else {
    put_blocks(&in);
  }
  int error = dlk_file_table_load(&t, fd);
  MUST(error == 0 || error == ENODATA || error == EUCLEAN || error == EPROTO);
  look_at_rest();
  if (error == ENODATA)
    dlk_file_table_make(&t, fd, 7, (const uint8_t[16]){0});
  else if (error != 0)
    return 0;
  walk(&t);
  if (t.error == 0) {
    change(&t, &changes);
    round_trip(&t);
  }
  return 0;
}
