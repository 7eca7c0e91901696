/* A contender's key is its name without the number: the number is the key's
 * create_revision, so the order of numbers is that of the creates.
 *
 * The locks of etcdctl and clientv3 stand in the same order, in keys that end
 * with their lease in hex. Such a key is exclusive, its lease the guid, and its
 * client nobody. It may come again, with another number.
 *
 * A stand-in's key has no end in its name, for etcd has no clock to compare it
 * with. The key hangs on a lease of its own, which ends it. To others it ends
 * never (FAR); only its maker, whose clock it is, ends it earlier. */
#include "store/session/etcd/names.h"

#include <stdlib.h>
#include <string.h>

#include "store/session/format/names.h"

#define FAR "999999999999999999"
#define NOBODY "0000000000000000"
#define LEASE 16 /* digits at most */

/* Its kind's 'k' if an end follows; else NULL. */
static const char *mark_of(const char *name, const char *dash) {
  const char *k = memchr(name, 'k', (size_t)(dash - name));
  return k && k + 1 < dash ? k : NULL;
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* The digits in the name of an etcdctl's key; 0: it is no such name. */
static size_t foreign(const char *name, struct dlk_ss_entry *e) {
  if (!dlk_ss_name_parse(name, e) || e->units != 0 || e->keeps ||
      memcmp(e->client, NOBODY, DLK_SS_CLIENT) != 0)
    return 0;
  size_t n = DLK_SS_GUID - strspn(e->guid, "0");
  return n <= LEASE ? n : 0;
}

void dlk_etcd_node_of(struct dlk_etcd_node *n, const char *path) {
  const char *name = name_of(path), *dash = strchr(name, '-');
  const char *k = dash ? mark_of(name, dash) : NULL;
  struct dlk_ss_entry e;
  size_t digits = foreign(name, &e);
  n->created = 0;
  dlk_buf_clear(&n->key);
  if (digits > 0) {
    dlk_buf_add(&n->key, path, (size_t)(name - path));
    dlk_buf_add(&n->key, e.guid + DLK_SS_GUID - digits, digits);
    n->created = e.seq;
  } else if (k) {
    dlk_buf_add(&n->key, path, (size_t)(k - path) + 1);
    dlk_buf_addf(&n->key, "~%s", dash);
  } else if (dash) {
    const char *last = strrchr(dash, '-');
    dlk_buf_add(&n->key, path, (size_t)(last - path));
    n->created = strtoll(last + 1, NULL, 10);
  } else {
    dlk_buf_add(&n->key, path, strlen(path));
  }
}

int64_t dlk_etcd_until_ms(const char *path) {
  const char *name = name_of(path), *dash = strchr(name, '-');
  const char *k = dash ? mark_of(name, dash) : NULL;
  return k ? strtoll(k + 1, NULL, 10) : 0;
}

void dlk_etcd_number(struct dlk_buf *out, int64_t created) {
  dlk_buf_addf(out, "%015lld", (long long)created);
  dlk_buf_add(out, "", 1);
}

/* As "%x" of an int64_t. */
static bool is_lease(struct dlk_etcd_bytes s) {
  size_t n = 0;
  while (n < s.n && memchr("0123456789abcdef", s.p[n], 16))
    n++;
  return n > 0 && n == s.n && n <= LEASE && s.p[0] != '0';
}

void dlk_etcd_name(struct dlk_buf *out, struct dlk_etcd_bytes rest,
                   int64_t created) {
  const char *dash = memchr(rest.p, '-', rest.n);
  size_t head = dash ? (size_t)(dash - rest.p) : 0;
  if (head > 1 && rest.p[head - 1] == '~') {
    dlk_buf_add(out, rest.p, head - 1);
    dlk_buf_addf(out, "%s%.*s", FAR, (int)(rest.n - head), dash);
    dlk_buf_add(out, "", 1);
    return;
  }
  if (is_lease(rest))
    dlk_buf_addf(out, "x-%0*d%.*s-" NOBODY, DLK_SS_GUID - (int)rest.n, 0,
                 (int)rest.n, rest.p);
  else
    dlk_buf_add(out, rest.p, rest.n);
  dlk_buf_add(out, "-", 1);
  dlk_etcd_number(out, created);
}
