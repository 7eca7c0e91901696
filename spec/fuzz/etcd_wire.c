/* Messages of an etcd server, and names of its keys: the first byte says which
 * function reads the rest.
 *
 * - Nothing is read beyond the message, and every reader ends.
 * - What is no message is refused, or its rest is bad.
 * - A contender's name is that of its key again. */
#include "input.h"
#include "store/session/etcd/names.h"
#include "store/session/etcd/wire/messages.h"
#include "store/session/format/names.h"

static volatile char seen;

/* Reads each byte, for the sanitizer. */
static void look(struct dlk_etcd_bytes s) {
  for (size_t i = 0; i < s.n; i++)
    seen ^= s.p[i];
}

static void look_at_kvs(struct dlk_pb *kvs) {
  struct dlk_etcd_kv kv;
  while (dlk_etcd_next_kv(kvs, &kv)) {
    look(kv.key);
    look(kv.value);
    struct dlk_buf name = {0};
    dlk_etcd_name(&name, kv.key, kv.created);
    MUST(!name.failed && name.len > 0 && name.data[name.len - 1] == '\0');
    dlk_buf_free(&name);
  }
  MUST(kvs->bad || kvs->at == kvs->end);
}

static void look_at_path(const char *text) {
  struct dlk_etcd_node n = {0};
  dlk_etcd_node_of(&n, text);
  MUST(!n.key.failed && n.key.len <= strlen(text) + 1);
  const char *slash = strrchr(text, '/'), *name = slash ? slash + 1 : text;
  size_t skip = (size_t)(name - text);
  struct dlk_ss_entry e;
  if (n.key.data && n.created > 0 && dlk_ss_name_parse(name, &e) &&
      e.until_ms == 0) {
    struct dlk_buf again = {0};
    dlk_etcd_name(&again,
                  (struct dlk_etcd_bytes){n.key.data + skip, n.key.len - skip},
                  n.created);
    if (strlen(strrchr(name, '-') + 1) == 15)
      MUST(strcmp(again.data, name) == 0);
    dlk_buf_free(&again);
  }
  dlk_buf_free(&n.key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct input in = {data, data + size};
  uint8_t which = input_byte(&in);
  struct dlk_etcd_bytes m = {(const char *)in.p, (size_t)(in.end - in.p)};
  struct dlk_etcd_ranged got;
  struct dlk_etcd_did did;
  struct dlk_etcd_leased leased;
  struct dlk_etcd_watched watched;
  struct dlk_etcd_bytes token;
  bool deleted;
  switch (which % 6) {
  case 0:
    if (dlk_etcd_ranged(m, &got))
      look_at_kvs(&got.kvs);
    break;
  case 1:
    if (dlk_etcd_did(m, &did)) {
      look_at_kvs(&did.range.kvs);
      look_at_kvs(&did.second.kvs);
    }
    break;
  case 2:
    (void)dlk_etcd_leased(m, &leased);
    break;
  case 3:
    if (dlk_etcd_watched(m, &watched))
      while (dlk_etcd_next_event(&watched.events, &deleted))
        continue;
    break;
  case 4:
    if (dlk_etcd_token(m, &token))
      look(token);
    break;
  default: {
    char *text = input_text(&in, '\0');
    look_at_path(text);
    free(text);
  }
  }
  return 0;
}
