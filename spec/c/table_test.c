/* The file store's table under interrupted writes: at every write, and at
 * every byte of one, a process may die. Linked with --wrap=pwrite64, so a write
 * can be cut; what is on disk then must be the state before or the state
 * after the commit, and the next process must be able to go on. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "store/file/format/name.h"
#include "store/file/format/table.h"

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at);
ssize_t __real_pwrite64(int fd, const void *p, size_t n, off_t at);

static long bytes_left = -1; /* -1: no limit */
static int writes;
static jmp_buf killed;

ssize_t __wrap_pwrite64(int fd, const void *p, size_t n, off_t at) {
  writes++;
  if (bytes_left < 0)
    return __real_pwrite64(fd, p, n, at);
  size_t part = n < (size_t)bytes_left ? n : (size_t)bytes_left;
  if (part > 0 && __real_pwrite64(fd, p, part, at) != (ssize_t)part)
    abort();
  bytes_left -= (long)part;
  if (part < n)
    longjmp(killed, 1);
  return (ssize_t)n;
}

static int new_file(void) {
  char path[] = "/tmp/dlock-test-table-XXXXXX";
  int fd = mkstemp(path);
  if (fd < 0)
    abort();
  unlink(path);
  return fd;
}

/* ---- what a table says, in full ---- */

#define MANY 128

struct state {
  int64_t fence;
  uint64_t used;
  uint32_t exclusive, slots, count[DLK_FILE_LISTS];
  uint64_t token[DLK_FILE_LISTS][MANY];
};

static void read_state(int fd, struct state *s) {
  static struct dlk_file_table t;
  memset(s, 0, sizeof *s);
  CHECK(dlk_file_table_load(&t, fd) == 0);
  s->fence = t.head.fence;
  s->used = t.head.used;
  s->exclusive = t.head.exclusive;
  s->slots = t.head.slots;
  uint32_t all = 0;
  uint64_t used = 0, exclusive = 0;
  for (int l = 0; l < DLK_FILE_LISTS; l++) {
    uint32_t before = 0, n = 0;
    for (uint32_t i = t.head.first[l]; i != 0; n++) {
      const struct dlk_file_slot *slot = dlk_file_table_at(&t, i);
      CHECK(t.error == 0 && n < MANY);
      CHECK(slot->list == l && slot->prev == before);
      s->token[l][n] = slot->token;
      if (l == DLK_FILE_HELD) {
        used += slot->units;
        exclusive += slot->units == 0;
      }
      before = i;
      i = slot->next;
    }
    CHECK(t.head.last[l] == before && t.head.count[l] == n);
    s->count[l] = n;
    all += n;
  }
  CHECK(all == s->slots); /* no slot is ever lost */
  CHECK(used == s->used && exclusive == s->exclusive);
}

/* ---- random changes ---- */

static uint32_t nth(struct dlk_file_table *t, int list, uint32_t n) {
  uint32_t i = t->head.first[list];
  while (n-- > 0 && i != 0)
    i = dlk_file_table_at(t, i)->next;
  return i;
}

/* One to three changes in one commit, as the store makes them. */
static void change(struct dlk_file_table *t, uint64_t *token) {
  int n = 1 + (int)check_random(3);
  while (n-- > 0) {
    if (dlk_file_table_room(t) != 0)
      return;
    int list = 1 + (int)check_random(DLK_FILE_LISTS - 1);
    uint32_t all = t->head.count[list];
    if (all < 12 && check_random(2) == 0) {
      uint32_t i = dlk_file_table_take(t);
      struct dlk_file_slot *slot = dlk_file_table_edit(t, i);
      slot->token = ++*token;
      slot->instance = 1;
      slot->units = check_random(4);
      dlk_file_table_append(t, i, (enum dlk_file_list)list);
    } else if (all > 0) {
      uint32_t i = nth(t, list, check_random(all));
      if (t->head.count[DLK_FILE_HELD] > 20 || check_random(2) == 0) {
        dlk_file_table_drop(t, i);
      } else {
        dlk_file_table_unlink(t, i);
        dlk_file_table_edit(t, i)->fence = ++t->head.fence;
        dlk_file_table_append(t, i, DLK_FILE_HELD);
      }
    }
  }
}

static void begin(int fd, struct dlk_file_table *t) {
  static const uint8_t boot[16] = {1};
  CHECK(dlk_file_table_load(t, fd) == ENODATA);
  dlk_file_table_make(t, fd, 1000, boot);
  CHECK(dlk_file_table_commit(t) == 0);
}

TEST(histories) {
  static struct dlk_file_table t;
  struct state before, after;
  uint64_t token = 0;
  int fd = new_file();
  begin(fd, &t);
  for (int i = 0; i < 20000; i++) {
    read_state(fd, &before);
    CHECK(dlk_file_table_load(&t, fd) == 0);
    change(&t, &token);
    CHECK(dlk_file_table_commit(&t) == 0);
    read_state(fd, &after);
    CHECK(after.fence >= before.fence);
  }
  close(fd);
}

/* The lock of one user changes one slot over and over: the header alone is
 * written. A slot that is left as it was goes to its own place, once. */
TEST(one_write) {
  static struct dlk_file_table t;
  int fd = new_file();
  begin(fd, &t);
  for (int i = 0; i < 2; i++)
    dlk_file_table_append(&t, dlk_file_table_take(&t), DLK_FILE_WATCH);
  CHECK(dlk_file_table_commit(&t) == 0);
  for (int i = 0; i < 10; i++) {
    CHECK(dlk_file_table_load(&t, fd) == 0);
    writes = 0;
    dlk_file_table_edit(&t, 1)->fence = i + 1;
    CHECK(dlk_file_table_commit(&t) == 0);
    CHECK(writes == (i == 0 ? 2 : 1));
  }
  close(fd);
}

/* A process that dies after so many bytes. The changes of one round may be
 * several commits; each is compared by what a second, whole run of the same
 * changes leaves: the state must be among those that it went through. */
static void kill_at(int fd, long bytes, uint64_t *token) {
  static struct dlk_file_table t;
  bytes_left = bytes;
  if (setjmp(killed) == 0) {
    if (dlk_file_table_load(&t, fd) == 0) {
      change(&t, token);
      if (dlk_file_table_commit(&t) != 0)
        abort();
    }
  }
  bytes_left = -1;
}

TEST(kills) {
  static struct dlk_file_table t;
  struct state now;
  uint64_t token = 0;
  int fd = new_file();
  begin(fd, &t);
  int64_t fence = 0;
  for (int i = 0; i < 40000; i++) {
    kill_at(fd, (long)check_random(3000), &token);
    read_state(fd, &now); /* valid: every list, sum and back link */
    CHECK(now.fence >= fence);
    fence = now.fence;
  }
  CHECK(now.slots >= 10);
  close(fd);
}

/* Every byte of one commit: before it is complete, the old state stands. (It
 * can be complete some bytes early, when those were on the disk by chance.) */
TEST(every_byte) {
  struct state old, new, now;
  for (volatile uint64_t seed = 1; seed < 12; seed++) {
    uint64_t token = 0;
    int fd = new_file();
    static struct dlk_file_table t;
    check_seed = seed * 7919;
    begin(fd, &t);
    for (int i = 0; i < 50; i++) {
      CHECK(dlk_file_table_load(&t, fd) == 0);
      change(&t, &token);
      CHECK(dlk_file_table_commit(&t) == 0);
    }
    read_state(fd, &old);
    /* With one slot changed the commit is one; run it cut at every byte. */
    volatile long cut = 0;
    volatile bool done = false;
    for (;;) {
      bytes_left = cut;
      if (setjmp(killed) == 0) {
        if (dlk_file_table_load(&t, fd) != 0)
          abort();
        uint32_t i = dlk_file_table_take(&t);
        dlk_file_table_edit(&t, i)->token = 4711;
        dlk_file_table_append(&t, i, DLK_FILE_WAIT);
        if (dlk_file_table_commit(&t) != 0)
          abort();
        done = true;
      }
      bytes_left = -1;
      read_state(fd, &now);
      if (memcmp(&now, &old, sizeof now) != 0)
        break;
      CHECK(!done);
      cut++;
    }
    read_state(fd, &new);
    CHECK(new.count[DLK_FILE_WAIT] == old.count[DLK_FILE_WAIT] + 1);
    CHECK(new.token[DLK_FILE_WAIT][old.count[DLK_FILE_WAIT]] == 4711);
    CHECK(cut > 300);
    close(fd);
  }
}

TEST(damage) {
  static struct dlk_file_table t;
  int fd = new_file();
  char junk[8192];
  memset(junk, 'j', sizeof junk);
  begin(fd, &t);
  CHECK(dlk_file_table_load(&t, fd) == 0);
  CHECK(pwrite(fd, junk, 40, 60) == 40);
  CHECK(pwrite(fd, junk, 40, 2048 + 60) == 40);
  CHECK(dlk_file_table_load(&t, fd) == EUCLEAN);
  CHECK(pwrite(fd, junk, sizeof junk, 0) == (ssize_t)sizeof junk);
  CHECK(dlk_file_table_load(&t, fd) == EPROTO);
  CHECK(ftruncate(fd, 0) == 0);
  CHECK(dlk_file_table_load(&t, fd) == ENODATA);
  close(fd);
}

/* Two slots, the first of which is in its own place. */
TEST(torn_slot) {
  static struct dlk_file_table t;
  int fd = new_file();
  begin(fd, &t);
  for (int i = 0; i < 2; i++)
    dlk_file_table_append(&t, dlk_file_table_take(&t), DLK_FILE_WAIT);
  CHECK(dlk_file_table_commit(&t) == 0);
  dlk_file_table_edit(&t, 2)->fence = 1;
  CHECK(dlk_file_table_commit(&t) == 0);
  CHECK(dlk_file_table_load(&t, fd) == 0);
  CHECK(dlk_file_table_at(&t, 1)->list == DLK_FILE_WAIT && t.error == 0);
  CHECK(pwrite(fd, "torn", 4, 8192 + 20) == 4);
  CHECK(dlk_file_table_load(&t, fd) == 0);
  CHECK(dlk_file_table_at(&t, 2)->fence == 1 && t.error == 0);
  CHECK(dlk_file_table_at(&t, 1)->list == DLK_FILE_FREE);
  CHECK(t.error == EUCLEAN && dlk_file_table_commit(&t) == EUCLEAN);
  close(fd);
}

/* ---- names ---- */

TEST(names) {
  char name[DLK_FILE_NAME];
  dlk_file_name(name, "orders:42_x-y.z", 15);
  CHECK(strcmp(name, "orders:42_x-y.z") == 0);
  dlk_file_name(name, "..", 2);
  CHECK(strcmp(name, "%2E.") == 0);
  dlk_file_name(name, "~a/b%\0", 6);
  CHECK(strcmp(name, "%7Ea%2Fb%25%00") == 0);
  char key[512];
  memset(key, '/', sizeof key);
  dlk_file_name(name, key, 66);
  CHECK(strlen(name) == 198 && name[0] == '%');
  dlk_file_name(name, key, 67);
  CHECK(strlen(name) == 66 && strncmp(name, "~h", 2) == 0);
  dlk_file_name(name, key, 512);
  CHECK(strlen(name) == 66);
  dlk_file_name(name, ".~a/\0%", 6);
  CHECK(dlk_file_name_is(name, ".~a/\0%", 6));
  CHECK(!dlk_file_name_is(name, ".~a/\0", 5));
}

TEST(sums) {
  static const struct {
    size_t n;
    const char *hex;
  } known[] = {
      {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
      {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
      {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
      {512, "471be6558b665e4f6dd49f1184814d1491b0315d466beea768c153cc5500c836"},
  };
  char data[512];
  memset(data, 'a', sizeof data);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    uint8_t sum[32];
    char hex[65];
    dlk_file_sha256(sum, data, known[i].n);
    for (int j = 0; j < 32; j++)
      snprintf(hex + 2 * j, 3, "%02x", (unsigned)sum[j]);
    CHECK(strcmp(hex, known[i].hex) == 0);
  }
}

int main(void) {
  return check_all();
}
