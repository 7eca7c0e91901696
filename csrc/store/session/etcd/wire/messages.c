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
  dlk_pb_int(b, target == DLK_ETCD_LEASE ? 8 : (unsigned)target + 4, value);
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

void dlk_etcd_do_delete(struct dlk_buf *b, struct dlk_etcd_bytes key) {
  size_t op = dlk_pb_open(b, DLK_ETCD_THEN), mark = dlk_pb_open(b, 3);
  add(b, 1, key);
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

static struct dlk_pb inside(const struct dlk_pb_field *f) {
  return dlk_pb_of(f->bytes ? f->bytes : "", f->len);
}

static struct dlk_etcd_bytes text(const struct dlk_pb_field *f) {
  return (struct dlk_etcd_bytes){f->bytes ? f->bytes : "", f->len};
}

static bool revision(const struct dlk_pb_field *header, int64_t *out) {
  struct dlk_pb r = inside(header);
  struct dlk_pb_field f;
  while (dlk_pb_next(&r, &f))
    if (f.number == 3)
      *out = f.value;
  return !r.bad;
}

bool dlk_etcd_ranged(struct dlk_etcd_bytes m, struct dlk_etcd_ranged *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_pb_field f;
  *out = (struct dlk_etcd_ranged){.kvs = r};
  while (dlk_pb_next(&r, &f))
    if (f.number == 1 && !revision(&f, &out->revision))
      return false;
    else if (f.number == 4)
      out->count = f.value;
  return !r.bad;
}

static bool read_kv(const struct dlk_pb_field *whole, struct dlk_etcd_kv *kv) {
  struct dlk_pb r = inside(whole);
  struct dlk_pb_field f;
  *kv = (struct dlk_etcd_kv){.key = {"", 0}, .value = {"", 0}};
  while (dlk_pb_next(&r, &f))
    switch (f.number) {
    case 1:
      kv->key = text(&f);
      break;
    case 2:
      kv->created = f.value;
      break;
    case 3:
      kv->modified = f.value;
      break;
    case 5:
      kv->value = text(&f);
      break;
    case 6:
      kv->lease = f.value;
      break;
    default:
      break;
    }
  return !r.bad;
}

bool dlk_etcd_next_kv(struct dlk_pb *kvs, struct dlk_etcd_kv *out) {
  struct dlk_pb_field f;
  while (dlk_pb_next(kvs, &f))
    if (f.number == 2) {
      kvs->bad = !read_kv(&f, out);
      return !kvs->bad;
    }
  return false;
}

/* A ResponseOp: of a range 1, of a put 2, of a delete 3. */
static bool read_part(const struct dlk_pb_field *op, bool first,
                      struct dlk_etcd_did *out) {
  struct dlk_pb r = inside(op);
  struct dlk_pb_field part, f;
  bool ok = true;
  while (ok && dlk_pb_next(&r, &part))
    if (part.number == 1) {
      ok = dlk_etcd_ranged(text(&part), first ? &out->range : &out->second);
    } else if (part.number == 3) {
      struct dlk_pb in = inside(&part);
      while (dlk_pb_next(&in, &f))
        if (f.number == 2)
          out->deleted += f.value;
      ok = !in.bad;
    }
  return ok && !r.bad;
}

bool dlk_etcd_did(struct dlk_etcd_bytes m, struct dlk_etcd_did *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_pb_field f;
  int64_t at = 0;
  unsigned ranges = 0;
  *out = (struct dlk_etcd_did){0};
  out->range.kvs = out->second.kvs = dlk_pb_of("", 0);
  while (dlk_pb_next(&r, &f)) {
    if (f.number == 1 && !revision(&f, &at))
      return false;
    if (f.number == 2)
      out->succeeded = f.value != 0;
    if (f.number == 3) {
      bool is_range = f.len > 0 && f.bytes[0] == (1 << 3 | 2);
      if (!read_part(&f, ranges == 0, out))
        return false;
      ranges += is_range;
    }
  }
  out->range.revision = at;
  return !r.bad;
}

bool dlk_etcd_leased(struct dlk_etcd_bytes m, struct dlk_etcd_leased *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_pb_field f;
  *out = (struct dlk_etcd_leased){0};
  while (dlk_pb_next(&r, &f))
    if (f.number == 2)
      out->id = f.value;
    else if (f.number == 3)
      out->ttl = f.value;
  return !r.bad;
}

bool dlk_etcd_watched(struct dlk_etcd_bytes m, struct dlk_etcd_watched *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_pb_field f;
  *out = (struct dlk_etcd_watched){.events = r};
  while (dlk_pb_next(&r, &f))
    if (f.number == 2)
      out->id = f.value;
    else if (f.number == 3)
      out->created = f.value != 0;
    else if (f.number == 4)
      out->canceled = f.value != 0;
  return !r.bad;
}

bool dlk_etcd_next_event(struct dlk_pb *events, bool *deleted) {
  struct dlk_pb_field f, in;
  while (dlk_pb_next(events, &f)) {
    if (f.number != 11)
      continue;
    struct dlk_pb r = inside(&f);
    *deleted = false;
    while (dlk_pb_next(&r, &in))
      if (in.number == 1)
        *deleted = in.value != 0;
    events->bad = r.bad;
    return !r.bad;
  }
  return false;
}

bool dlk_etcd_token(struct dlk_etcd_bytes m, struct dlk_etcd_bytes *out) {
  struct dlk_pb r = dlk_pb_of(m.p, m.n);
  struct dlk_pb_field f;
  while (dlk_pb_next(&r, &f))
    if (f.number == 2) {
      *out = text(&f);
      return true;
    }
  return false;
}
