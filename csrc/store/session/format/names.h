/* Node names of locks and contenders. */
#ifndef DLK_STORE_SESSION_FORMAT_NAMES_H
#define DLK_STORE_SESSION_FORMAT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

#define DLK_SS_GUID 32
#define DLK_SS_CLIENT 16
/* With its NUL: "p<10>.<10>k<18>-", guid, "-", client, "-", number. */
#define DLK_SS_NAME_MAX 120

/* A contender as its name tells it; pointers into the name. */
struct dlk_ss_entry {
  const char *name, *guid, *client;
  int64_t seq;
  uint32_t units, cap;
  bool keeps;       /* has a min_hold */
  int64_t until_ms; /* a stand-in's end, by the servers' clock; else 0 */
};

/* Appends the key as a node name. */
void dlk_ss_escape(struct dlk_buf *out, const char *key, size_t len);
/* Appends the key of a node name; false: it has none. */
bool dlk_ss_unescape(struct dlk_buf *out, const char *name);

/* In b, until b is used again: its first `len` bytes, then '/' and name unless
 * NULL. NULL: no memory. */
const char *dlk_ss_path(struct dlk_buf *b, size_t len, const char *name);

/* n bytes as 2 n hex digits and a NUL. */
void dlk_ss_hex(char *out, const unsigned char *bytes, size_t n);

/* The name to create, without the number. */
void dlk_ss_name_format(char out[DLK_SS_NAME_MAX], uint32_t units, uint32_t cap,
                        bool keeps, const char *guid, const char *client);
/* Where its guid begins. */
size_t dlk_ss_name_guid_at(uint32_t units, uint32_t cap, bool keeps);
/* The name of a contender's stand-in. */
void dlk_ss_name_standin(char out[DLK_SS_NAME_MAX],
                         const struct dlk_ss_entry *of, int64_t until_ms);
/* The longest name, with its NUL. Most are exclusive, and held by the ten
 * thousand. */
size_t dlk_ss_name_room(uint32_t units);
/* False: no contender's name. */
bool dlk_ss_name_parse(const char *name, struct dlk_ss_entry *out);

/* One block: the pointers, then the names. NULL: no memory. */
char **dlk_ss_names_copy(char *const *names, size_t count);

bool dlk_ss_seq_before(int64_t a, int64_t b);
#endif
