/* A contender's key is its name without the number: the number is the key's
 * create_revision, so the order of numbers is that of the creates.
 *
 * A stand-in's key has no end in its name, for etcd has no clock to compare it
 * with. The key hangs on a lease of its own, which ends it. To others it ends
 * never (FAR); only its maker, whose clock it is, ends it earlier. */
#include "store/session/etcd/names.h"

#include <stdlib.h>

#define FAR "999999999999999999"

/* Its kind's 'k' if an end follows; else NULL. */
static const char *mark_of(const char *name, const char *dash) {
  const char *k = memchr(name, 'k', (size_t)(dash - name));
  return k && k + 1 < dash ? k : NULL;
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

void dlk_etcd_node_of(struct dlk_etcd_node *n, const char *path) {
  const char *name = name_of(path), *dash = strchr(name, '-');
  const char *k = dash ? mark_of(name, dash) : NULL;
  n->created = 0;
  dlk_buf_clear(&n->key);
  if (k) {
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
  dlk_buf_add(out, rest.p, rest.n);
  dlk_buf_add(out, "-", 1);
  dlk_etcd_number(out, created);
}
