/* Field numbers stand here and nowhere else. A folder's keys are those from
 * "name/" to "name0": '0' follows '/'. */
#include "store/session/etcd/wire/messages.h"

/* ---- requests ---- */

static void add(struct dlk_buf *b, unsigned field, struct dlk_etcd_bytes s) {
  dlk_pb_bytes(b, field, s.p, s.n);
}

/* The last byte of a folder's prefix is no 0xff. */
static void put_end(struct dlk_buf *b, unsigned field,
                    struct dlk_etcd_bytes s) {
  add(b, field, s);
  if (!b->failed)
    b->data[b->len - 1]++;
}

void dlk_etcd_range(struct dlk_buf *b, const struct dlk_etcd_range *r) {
  add(b, 1, r->key);
  if (r->folder)
    put_end(b, 2, r->key);
  dlk_pb_int(b, 7, r->serializable);
  dlk_pb_int(b, 8, r->keys_only);
  dlk_pb_int(b, 9, r->count_only);
}

void dlk_etcd_if(struct dlk_buf *b, struct dlk_etcd_bytes key,
                 enum dlk_etcd_target target, int64_t value) {
  size_t mark = dlk_pb_open(b, 1);
  dlk_pb_int(b, 2, target);
  add(b, 3, key);
  dlk_pb_int(b, (unsigned)target + 4, value);
  dlk_pb_close(b, mark);
}

/* True only of an empty range: each key has a create_revision. */
void dlk_etcd_if_none(struct dlk_buf *b, struct dlk_etcd_bytes first,
                      struct dlk_etcd_bytes folder) {
  size_t mark = dlk_pb_open(b, 1);
  dlk_pb_int(b, 2, DLK_ETCD_CREATE);
  add(b, 3, first);
  put_end(b, 64, folder);
  dlk_pb_close(b, mark);
}

void dlk_etcd_do_range(struct dlk_buf *b, enum dlk_etcd_branch branch,
                       const struct dlk_etcd_range *r) {
  size_t op = dlk_pb_open(b, branch), mark = dlk_pb_open(b, 1);
  dlk_etcd_range(b, r);
  dlk_pb_close(b, mark);
  dlk_pb_close(b, op);
}

void dlk_etcd_do_put(struct dlk_buf *b, const struct dlk_etcd_put *p) {
  size_t op = dlk_pb_open(b, DLK_ETCD_THEN), mark = dlk_pb_open(b, 2);
  add(b, 1, p->key);
  if (!p->same_value)
    add(b, 2, p->value);
  dlk_pb_int(b, 3, p->lease);
  dlk_pb_int(b, 5, p->same_value);
  dlk_pb_int(b, 6, p->same_lease);
  dlk_pb_close(b, mark);
  dlk_pb_close(b, op);
}

void dlk_etcd_do_delete(struct dlk_buf *b, struct dlk_etcd_bytes key,
                        bool below) {
  size_t op = dlk_pb_open(b, DLK_ETCD_THEN), mark = dlk_pb_open(b, 3);
  add(b, 1, key);
  if (below) {
    size_t end = dlk_pb_open(b, 2);
    dlk_buf_add(b, key.p, key.n);
    dlk_buf_add(b, "0", 1);
    dlk_pb_close(b, end);
  }
  dlk_pb_close(b, mark);
  dlk_pb_close(b, op);
}

void dlk_etcd_grant(struct dlk_buf *b, int64_t seconds, int64_t id) {
  dlk_pb_int(b, 1, seconds);
  dlk_pb_int(b, 2, id);
}

void dlk_etcd_lease(struct dlk_buf *b, int64_t lease) {
  dlk_pb_int(b, 1, lease);
}

void dlk_etcd_watch(struct dlk_buf *b, struct dlk_etcd_bytes key, bool folder,
                    int64_t id, int64_t from) {
  size_t mark = dlk_pb_open(b, 1);
  add(b, 1, key);
  if (folder)
    put_end(b, 2, key);
  dlk_pb_int(b, 3, from);
  dlk_pb_int(b, 7, id);
  dlk_pb_close(b, mark);
}

void dlk_etcd_unwatch(struct dlk_buf *b, int64_t id) {
  size_t mark = dlk_pb_open(b, 2);
  dlk_pb_int(b, 1, id);
  dlk_pb_close(b, mark);
}

void dlk_etcd_authenticate(struct dlk_buf *b, const char *user,
                           const char *password) {
  dlk_pb_bytes(b, 1, user, strlen(user));
  dlk_pb_bytes(b, 2, password, strlen(password));
}

/* ---- answers ---- */

/* The last of each field of a small number; more than one are read apart. */
struct fields {
  int64_t number[7];
  struct dlk_etcd_bytes bytes[7];
  bool there[7];
};

static struct dlk_etcd_bytes text(const struct dlk_pb_field *f) {
  return (struct dlk_etcd_bytes){f->bytes ? f->bytes : "", f->len};
}

static bool scan(struct dlk_etcd_bytes m, struct fields *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_pb_field f = {0};
  *out = (struct fields){0};
  for (int i = 0; i < 7; i++)
    out->bytes[i] = text(&f);
  while (dlk_pb_next(&r, &f))
    if (f.number < 7) {
      out->number[f.number] = f.value;
      out->bytes[f.number] = text(&f);
      out->there[f.number] = true;
    }
  return !r.bad;
}

/* Finds the next field of that number. */
static bool find(struct dlk_pb *r, unsigned number, struct dlk_etcd_bytes *m) {
  struct dlk_pb_field f;
  while (dlk_pb_next(r, &f))
    if (f.number == number) {
      *m = text(&f);
      return true;
    }
  return false;
}

bool dlk_etcd_ranged(struct dlk_etcd_bytes m, struct dlk_etcd_ranged *out) {
  struct fields f, header;
  bool ok = scan(m, &f) && scan(f.bytes[1], &header);
  *out = (struct dlk_etcd_ranged){.kvs = dlk_pb_of(m.p, m.n)};
  if (!ok)
    return false;
  out->revision = header.number[3];
  out->count = f.number[4];
  return true;
}

bool dlk_etcd_next_kv(struct dlk_pb *kvs, struct dlk_etcd_kv *out) {
  struct dlk_etcd_bytes m;
  struct fields f;
  if (!find(kvs, 2, &m))
    return false;
  kvs->bad = !scan(m, &f);
  *out = (struct dlk_etcd_kv){.key = f.bytes[1],
                              .value = f.bytes[5],
                              .created = f.number[2],
                              .modified = f.number[3],
                              .lease = f.number[6]};
  return !kvs->bad;
}

/* A part's field is of a range 1, of a put 2, of a delete 3. */
bool dlk_etcd_did(struct dlk_etcd_bytes m, struct dlk_etcd_did *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_etcd_bytes one;
  struct fields f, header, part, deleted;
  struct dlk_etcd_ranged *next = &out->range;
  *out = (struct dlk_etcd_did){0};
  out->range.kvs = out->second.kvs = dlk_pb_of("", 0);
  if (!scan(m, &f) || !scan(f.bytes[1], &header))
    return false;
  out->succeeded = f.number[2] != 0;
  while (find(&r, 3, &one)) {
    if (!scan(one, &part) || !scan(part.bytes[3], &deleted))
      return false;
    out->deleted += deleted.number[2];
    if (!part.there[1])
      continue;
    if (!dlk_etcd_ranged(part.bytes[1], next))
      return false;
    next = &out->second;
  }
  out->range.revision = header.number[3];
  return !r.bad;
}

bool dlk_etcd_leased(struct dlk_etcd_bytes m, struct dlk_etcd_leased *out) {
  struct fields f;
  bool ok = scan(m, &f);
  *out = (struct dlk_etcd_leased){f.number[2], f.number[3]};
  return ok;
}

bool dlk_etcd_watched(struct dlk_etcd_bytes m, struct dlk_etcd_watched *out) {
  struct fields f;
  bool ok = scan(m, &f);
  *out = (struct dlk_etcd_watched){.id = f.number[2],
                                   .canceled = f.number[4] != 0,
                                   .events = dlk_pb_of(m.p, m.n)};
  return ok;
}

bool dlk_etcd_next_event(struct dlk_pb *events, bool *deleted) {
  struct dlk_etcd_bytes m;
  struct fields f;
  if (!find(events, 11, &m))
    return false;
  events->bad = !scan(m, &f);
  *deleted = f.number[1] != 0;
  return !events->bad;
}

bool dlk_etcd_token(struct dlk_etcd_bytes m, struct dlk_etcd_bytes *out) {
  struct fields f;
  bool ok = scan(m, &f) && f.there[2];
  *out = f.bytes[2];
  return ok;
}
