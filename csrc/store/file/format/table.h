/* The table in a key's file: who holds the key, who waits, who watches.
 *
 * Every function but dlk_file_table_load on its own wants the file's mutex
 * (key.c). Errors are errno values and stick until the next load: after one,
 * slots are a scratch slot and commit answers the error. */
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
#define DLK_FILE_VALUE 1024 /* longest value an election can publish */
#define DLK_FILE_NAMED 1024 /* longest key with its prefix */
#define DLK_FILE_OVERLAY 10
#define DLK_FILE_ITEMS 48

/* One entry, as it is on disk. Indexes count from 1; 0 is none. */
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
  uint8_t asked; /* somebody asked for it back */
  uint32_t check;
  char owner[DLK_FILE_OWNER];
};

struct dlk_file_head {
  uint64_t magic, check, seq;
  uint8_t boot[16];
  int64_t fence;
  uint64_t used;      /* units of the shared holders */
  uint32_t exclusive; /* holders of the whole key: 0 or 1 */
  uint32_t slots;     /* how many there are; all indexes are <= this */
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
  int copy; /* which of the two headers is the current one */
  bool changed;
  bool torn; /* the other header is neither of the state before nor empty */
  size_t evict;
  struct dlk_file_head head;
  struct dlk_file_item item[DLK_FILE_ITEMS];
  struct dlk_file_slot scratch;
};

/* Reads the header. 0, or an errno: ENODATA when there is no table yet,
 * EUCLEAN when it is damaged, EPROTO when the file is not ours. Without the
 * mutex EUCLEAN means no more than `ask again with the mutex`. */
int dlk_file_table_load(struct dlk_file_table *t, int fd);
/* Makes an unreadable table an empty one, on disk. */
int dlk_file_table_wipe(int fd);
/* Makes a new table in memory, for an empty file or after a reboot. */
void dlk_file_table_make(struct dlk_file_table *t, int fd, int64_t fence,
                         const uint8_t boot[16]);
/* Writes what was changed, atomically. */
int dlk_file_table_commit(struct dlk_file_table *t);
/* The next change (of up to 4 slots) might not fit any more. */
bool dlk_file_table_full(const struct dlk_file_table *t);
/* Commits if so. */
int dlk_file_table_room(struct dlk_file_table *t);

/* The slot for reading; valid until about ten others were asked for. */
const struct dlk_file_slot *dlk_file_table_at(struct dlk_file_table *t,
                                              uint32_t index);
/* The same for writing. */
struct dlk_file_slot *dlk_file_table_edit(struct dlk_file_table *t,
                                          uint32_t index);
/* An unused slot, in no list, zeroed; 0 on error. */
uint32_t dlk_file_table_take(struct dlk_file_table *t);
/* Appends the slot, which is in no list, to a list. */
void dlk_file_table_append(struct dlk_file_table *t, uint32_t index,
                           enum dlk_file_list list);
/* Takes the slot out of its list. */
void dlk_file_table_unlink(struct dlk_file_table *t, uint32_t index);
/* Takes the slot out of its list and makes it unused. */
void dlk_file_table_drop(struct dlk_file_table *t, uint32_t index);

/* The key and the value of a slot are beside the table, unprotected: the key
 * is written once before the first commit, a value before its slot's. */
int dlk_file_table_set_key(int fd, const char *key, size_t len);
/* Returns the length, or -errno. */
long dlk_file_table_get_key(int fd, char out[DLK_FILE_NAMED]);
int dlk_file_table_set_value(int fd, uint32_t index, const char *value,
                             size_t len);
long dlk_file_table_get_value(int fd, uint32_t index, size_t len,
                              char out[DLK_FILE_VALUE]);

#endif
