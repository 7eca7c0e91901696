/* Node names: of locks (escaped keys) and of contenders. */
#ifndef DLK_STORE_SESSION_FORMAT_NAMES_H
#define DLK_STORE_SESSION_FORMAT_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/buf.h"

#define DLK_SS_GUID 32
#define DLK_SS_CLIENT 16
/* Longest name, with its NUL: "p<10>.<10>k<18>-", guid, "-", client, "-",
 * sequence. */
#define DLK_SS_NAME_MAX 120

/* A contender as its name tells it; the pointers point into the name. */
struct dlk_ss_entry {
  const char *name, *guid, *client;
  int32_t seq;
  uint32_t units, cap; /* as struct dlk_want */
  bool keeps;          /* it has a min_hold */
  int64_t until_ms;    /* a stand-in's end, by the server's clock; else 0 */
};

/* Appends the key as one legal node name that only this key has. */
void dlk_ss_escape(struct dlk_buf *out, const char *key, size_t len);
/* Appends the key that a node name stands for; false if it stands for none. */
bool dlk_ss_unescape(struct dlk_buf *out, const char *name);

/* The path of a node below the one that the first `len` bytes of b name, or
 * (name NULL) of that one itself: in b, valid until b is used again. NULL when
 * out of memory. */
const char *dlk_ss_path(struct dlk_buf *b, size_t len, const char *name);

/* Writes n random bytes as 2 n hex digits and a NUL. */
void dlk_ss_hex(char *out, const unsigned char *bytes, size_t n);

/* The name to create, without the sequence number. */
void dlk_ss_name_format(char out[DLK_SS_NAME_MAX], uint32_t units, uint32_t cap,
                        bool keeps, const char *guid, const char *client);
/* Where the guid begins in such a name. */
size_t dlk_ss_name_guid_at(uint32_t units, uint32_t cap, bool keeps);
/* The name of the stand-in of a contender that keeps. */
void dlk_ss_name_standin(char out[DLK_SS_NAME_MAX],
                         const struct dlk_ss_entry *of, int64_t until_ms);
/* What the name of one that asks for `units` takes at most, with its NUL: most
 * are exclusive, and ten thousand of them are held. */
size_t dlk_ss_name_room(uint32_t units);
/* False when the name is no contender's. */
bool dlk_ss_name_parse(const char *name, struct dlk_ss_entry *out);

/* A copy of a list of names in one block: the pointers, then the names. NULL:
 * out of memory. */
char **dlk_ss_names_copy(char *const *names, size_t count);

/* a was created before b. The counter is signed; servers up to 3.5 wrap it. */
bool dlk_ss_seq_before(int32_t a, int32_t b);
#endif
