/* All functions but dlk_file_table_load need the file's mutex. An error is an
 * errno and sticks until the next load: slots are a scratch slot then, and
 * commit answers it. */
#ifndef DLK_STORE_FILE_FORMAT_TABLE_H
#define DLK_STORE_FILE_FORMAT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum dlk_file_list {
  DLK_FILE_FREE,
  DLK_FILE_HELD,
  DLK_FILE_WAIT,
  DLK_FILE_WATCH,
  DLK_FILE_LISTS
};

#define DLK_FILE_OWNER 96
#define DLK_FILE_VALUE 1024
#define DLK_FILE_NAMED 1024 /* longest key with its prefix */
#define DLK_FILE_OVERLAY 10
#define DLK_FILE_ITEMS 48

/* Indexes count from 1; 0 is none. */
struct dlk_file_slot {
  uint64_t instance; /* the store that made it; 0: held by its time alone */
  uint64_t token;    /* unique in the instance */
  int64_t fence;
  int64_t since; /* in the list since; ns of CLOCK_BOOTTIME */
  int64_t until; /* HELD: kept at least so long, or 0; WAIT: min_hold, ns */
  int64_t ttl;
  uint32_t units, cap;
  uint32_t next, prev;
  uint16_t value_len;
  uint8_t list;  /* enum dlk_file_list */
  uint8_t asked; /* a revoke asks for it */
  uint32_t check;
  char owner[DLK_FILE_OWNER];
};

struct dlk_file_head {
  uint64_t magic, check, seq;
  uint8_t boot[16];
  int64_t fence;
  uint64_t used;      /* of the shared holders */
  uint32_t exclusive; /* holders of the whole key: 0 or 1 */
  uint32_t slots;     /* all indexes are <= this */
  uint32_t first[DLK_FILE_LISTS], last[DLK_FILE_LISTS];
  uint32_t count[DLK_FILE_LISTS];
  uint32_t overlay;
  uint32_t index[DLK_FILE_OVERLAY];
};

struct dlk_file_block {
  struct dlk_file_head head;
  struct dlk_file_slot slot[DLK_FILE_OVERLAY];
};

struct dlk_file_item {
  uint32_t index; /* 0: empty */
  bool shadowed;  /* the header's copy is newer than the slot's own */
  bool dirty;
  struct dlk_file_slot slot;
};

struct dlk_file_table {
  int fd, error;
  int copy; /* of the header, 0 or 1 */
  bool changed;
  bool torn; /* the other header is not of the state before */
  size_t evict;
  struct dlk_file_head head;
  struct dlk_file_item item[DLK_FILE_ITEMS];
  struct dlk_file_item scratch; /* on an error */
};

/* ENODATA: there is no table yet. EUCLEAN: damaged, or half of a write. EPROTO:
 * not ours. */
int dlk_file_table_load(struct dlk_file_table *t, int fd);
int dlk_file_table_wipe(int fd);
void dlk_file_table_make(struct dlk_file_table *t, int fd, int64_t fence,
                         const uint8_t boot[16]);
/* Atomic. */
int dlk_file_table_commit(struct dlk_file_table *t);
/* Whether a change of 4 slots might not fit any more. */
bool dlk_file_table_full(const struct dlk_file_table *t);
/* Commits if it is full. */
int dlk_file_table_room(struct dlk_file_table *t);

/* For reading; valid until about ten others were asked for. */
const struct dlk_file_slot *dlk_file_table_at(struct dlk_file_table *t,
                                              uint32_t index);
struct dlk_file_slot *dlk_file_table_edit(struct dlk_file_table *t,
                                          uint32_t index);
/* In no list, zeroed; 0 on error. */
uint32_t dlk_file_table_take(struct dlk_file_table *t);
/* The slot must be in no list. */
void dlk_file_table_append(struct dlk_file_table *t, uint32_t index,
                           enum dlk_file_list list);
void dlk_file_table_unlink(struct dlk_file_table *t, uint32_t index);
/* Unlinks the slot and frees it. */
void dlk_file_table_drop(struct dlk_file_table *t, uint32_t index);

/* Neither has a checksum. The key is written before the first commit, a value
 * before its slot's. */
int dlk_file_table_set_key(int fd, const char *key, size_t len);
/* The length, or -errno. */
long dlk_file_table_get_key(int fd, char out[DLK_FILE_NAMED]);
int dlk_file_table_set_value(int fd, uint32_t index, const char *value,
                             size_t len);
long dlk_file_table_get_value(int fd, uint32_t index, size_t len,
                              char out[DLK_FILE_VALUE]);

#endif
