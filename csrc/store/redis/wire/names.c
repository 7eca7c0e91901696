/* Names derived from the lock's own (L..":q", "{L}:q") land in another slot, or
 * on another lock, for locks called `}{`, `{}`, `a}b` or `x:q`.
 *
 * A tag is six octal digits. CRC16 is linear over the bits in which these
 * differ: entry i of `basis` changes exactly bit i of the slot. Gaussian
 * elimination over the 18 one-bit changes of "000000" gives the table. */
#include "store/redis/wire/names.h"

#include <stdio.h>
#include <string.h>

/* the slot of "000000" */
#define ORIGIN 14824u

static const uint32_t basis[14] = {
    0x612d, 0x2c79, 0x6c6e, 0x65a8, 0x0b0a, 0x050b, 0x6953,
    0x2660, 0x484e, 0x2966, 0x6b24, 0x0879, 0x246e, 0x2263,
};

/* CRC16 (polynomial 0x1021) of each nibble. */
static const uint16_t nibble[16] = {
    0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
    0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
};

/* Continues CRC16 (XMODEM). */
static uint16_t crc16(uint16_t crc, const char *p, size_t n) {
  for (size_t i = 0; i < n; i++) {
    unsigned c = (unsigned char)p[i];
    crc = (uint16_t)((crc << 4) ^ nibble[(crc >> 12) ^ (c >> 4)]);
    crc = (uint16_t)((crc << 4) ^ nibble[(crc >> 12) ^ (c & 15)]);
  }
  return crc;
}

unsigned dlk_redis_slot(const char *key, size_t len) {
  const char *open = memchr(key, '{', len);
  if (open) {
    size_t rest = len - (size_t)(open + 1 - key);
    const char *close = memchr(open + 1, '}', rest);
    if (close && close > open + 1) {
      key = open + 1;
      len = (size_t)(close - key);
    }
  }
  return crc16(0, key, len) % DLK_REDIS_SLOTS;
}

/* Writes the slot's tag. */
static void put_tag(char out[DLK_REDIS_TAG], unsigned slot) {
  unsigned change = slot ^ ORIGIN;
  uint32_t bits = 0;
  for (unsigned i = 0; i < 14; i++)
    if (change >> i & 1)
      bits ^= basis[i];
  for (unsigned i = 0; i < DLK_REDIS_TAG; i++)
    out[i] = (char)('0' + (bits >> (3 * i) & 7));
}

void dlk_redis_channel(char out[DLK_REDIS_CHANNEL], const char *channel,
                       unsigned slot) {
  char tag[DLK_REDIS_TAG];
  put_tag(tag, slot);
  snprintf(out, DLK_REDIS_CHANNEL, DLK_REDIS_RESERVED "{%.*s}:%s",
           DLK_REDIS_TAG, tag, channel + sizeof DLK_REDIS_RESERVED - 1);
}

/* The names are joined only if there is a brace. */
static unsigned slot_of(const struct dlk_redis_name *n) {
  if (!memchr(n->prefix, '{', n->prefix_len) &&
      !memchr(n->key, '{', n->key_len)) {
    uint16_t crc = crc16(0, n->prefix, n->prefix_len);
    return crc16(crc, n->key, n->key_len) % DLK_REDIS_SLOTS;
  }
  char whole[2048];
  if (n->prefix_len + n->key_len > sizeof whole)
    return 0;
  memcpy(whole, n->prefix, n->prefix_len);
  memcpy(whole + n->prefix_len, n->key, n->key_len);
  return dlk_redis_slot(whole, n->prefix_len + n->key_len);
}

static bool reserved(const struct dlk_redis_name *n) {
  static const char mark[] = DLK_REDIS_RESERVED;
  for (size_t i = 0; i < sizeof mark - 1; i++) {
    char c;
    if (i < n->prefix_len)
      c = n->prefix[i];
    else if (i - n->prefix_len < n->key_len)
      c = n->key[i - n->prefix_len];
    else
      return false;
    if (c != mark[i])
      return false;
  }
  return true;
}

bool dlk_redis_name_make(struct dlk_redis_name *name, const char *prefix,
                         const char *key, size_t key_len) {
  name->prefix = prefix;
  name->prefix_len = strlen(prefix);
  name->key = key;
  name->key_len = key_len;
  put_tag(name->tag, slot_of(name));
  return !reserved(name);
}

void dlk_redis_names_init(struct dlk_redis_names *n, const char *prefix) {
  n->prefix = prefix;
  n->prefix_len = strlen(prefix);
  n->last_len = 0;
  n->tagged = -1;
}

int dlk_redis_names_slot(struct dlk_redis_names *n, const char *key,
                         size_t len) {
  struct dlk_redis_name name = {n->prefix, key, n->prefix_len, len, {0}};
  if (len > 0 && len == n->last_len && memcmp(key, n->last_key, len) == 0)
    return n->last_slot;
  if (reserved(&name))
    return -1;
  int slot = (int)slot_of(&name);
  if (len <= sizeof n->last_key) {
    n->last_len = len;
    memcpy(n->last_key, key, len);
    n->last_slot = slot;
  }
  return slot;
}

void dlk_redis_names_of(struct dlk_redis_names *n, struct dlk_redis_name *name,
                        const char *key, size_t len, int slot) {
  if (slot != n->tagged)
    put_tag(n->last_tag, (unsigned)slot);
  n->tagged = slot;
  name->prefix = n->prefix;
  name->prefix_len = n->prefix_len;
  name->key = key;
  name->key_len = len;
  memcpy(name->tag, n->last_tag, sizeof name->tag);
}

/* `~dlock:{123456}:q:` */
#define BEFORE (sizeof DLK_REDIS_RESERVED - 1 + 1 + DLK_REDIS_TAG + 4)

size_t dlk_redis_name_len(const struct dlk_redis_name *name,
                          enum dlk_redis_part part) {
  size_t own = name->prefix_len + name->key_len;
  return part == DLK_REDIS_LOCK ? own : own + BEFORE;
}

void dlk_redis_name_write(const struct dlk_redis_name *name,
                          enum dlk_redis_part part, char *out) {
  if (part != DLK_REDIS_LOCK) {
    memcpy(out, DLK_REDIS_RESERVED "{", sizeof DLK_REDIS_RESERVED);
    out += sizeof DLK_REDIS_RESERVED;
    memcpy(out, name->tag, DLK_REDIS_TAG);
    out += DLK_REDIS_TAG;
    *out++ = '}';
    *out++ = ':';
    *out++ = (char)part;
    *out++ = ':';
  }
  memcpy(out, name->prefix, name->prefix_len);
  memcpy(out + name->prefix_len, name->key, name->key_len);
}
