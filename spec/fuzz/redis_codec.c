/* Bytes of a server: the check that runs before hiredis' reader, however they
 * are cut into pieces, and what is made of refusals.
 *
 * - Where the bytes are cut changes nothing.
 * - What the check lets pass, hiredis reads within its bounds, or refuses (a
 *   number with zeros in front), which ends the connection too.
 * - What is read without hiredis is what hiredis reads.
 * - A cluster's map and redirects name slots that there are, and places.
 * - A refusal always gets a code, a sentence in printable characters, and no
 *   more than there is room for. */
#include <hiredis/hiredis.h>

#include "core/status.h"
#include "input.h"
#include "same_reply.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/redis/wire/slots.h"

#define REPLIES 100000

static bool scan_in_pieces(const char *p, size_t n, size_t piece) {
  struct dlk_redis_scan s = {0};
  for (size_t at = 0; at < n; at += piece)
    if (!dlk_redis_scan(&s, p + at, n - at < piece ? n - at : piece))
      return false;
  return true;
}

static void look_at_refusal(const char *text) {
  struct dlk_error err = {.code = DLK_OK};
  const struct dlk_redis_fault *f = dlk_redis_fault_find(text);
  enum dlk_code code = dlk_redis_fault_error(&err, text, "redis://here");
  MUST(f != NULL && code == f->code && code == err.code && code != DLK_OK);
  MUST(f->action <= DLK_REDIS_SEND_TEXT);
  MUST(strlen(err.text) < sizeof err.text && strstr(err.text, "redis://here"));
  for (const char *c = err.text; *c; c++)
    MUST(*c >= ' ' && *c < 127);
  (void)dlk_redis_fault_is_denial(text);
  struct dlk_net_place place = {.port = 0};
  unsigned slot = 0;
  enum dlk_redis_redirect to =
      dlk_redis_redirect_read(text, "h", &slot, &place);
  MUST(slot < 16384);
  MUST(to == DLK_REDIS_MOVED || to == DLK_REDIS_ASK || !place.host[0]);
}

/* Depth and size, and the texts of refusals. */
static void walk(const redisReply *r, unsigned depth) {
  MUST(depth <= DLK_REDIS_DEPTH + 1);
  if (r->type == REDIS_REPLY_ERROR)
    look_at_refusal(r->str);
  if (r->type == REDIS_REPLY_STRING || r->type == REDIS_REPLY_STATUS)
    MUST(r->len <= DLK_REDIS_REPLY_MAX && r->str[r->len] == '\0');
  struct dlk_redis_range range;
  if (dlk_redis_range_read(r, "h", &range))
    MUST(range.first <= range.last && range.last < 16384 &&
         range.place.host[0] && range.place.port > 0 &&
         strlen(range.id) == DLK_REDIS_NODE_ID - 1);
  if (r->type == REDIS_REPLY_ARRAY)
    for (size_t i = 0; i < r->elements; i++)
      walk(r->element[i], depth + 1);
}

static void read_them(const char *p, size_t n) {
  redisReader *reader = redisReaderCreate();
  MUST(reader != NULL && redisReaderFeed(reader, p, n) == REDIS_OK);
  for (int i = 0; i < REPLIES; i++) {
    void *reply = NULL;
    if (redisReaderGetReply(reader, &reply) != REDIS_OK || reply == NULL)
      break;
    walk(reply, 1);
    freeReplyObject(reply);
  }
  redisReaderFree(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  size_t piece = 1 + input_byte(&in) % 32, n;
  const char *p = input_bytes(&in, size, &n);
  bool fine = scan_in_pieces(p, n, n ? n : 1);
  MUST(fine == scan_in_pieces(p, n, piece));
  MUST(fine == scan_in_pieces(p, n, 1));
  if (fine)
    read_them(p, n);
  bool brief;
  for (size_t at = 0; at < n; at++)
    MUST(brief_is_right(p + at, n - at, &brief));
  char *text = input_text(&(struct input){data, data + size}, '\n');
  look_at_refusal(text);
  free(text);
  return 0;
}
