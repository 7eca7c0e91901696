/* What a session's parts need of it: its state, its end, its next turn in the
 * loop. */
#include "store/session/etcd/link.h"

#include <stdio.h>

static void watch_one(struct dlk_host *host, const struct dlk_list *links) {
  int fd = -1;
  for (struct dlk_list *at = links->next; at != links; at = at->next) {
    struct dlk_ss_link *l = DLK_CONTAINER(at, struct dlk_ss_link, in_client);
    if (l->up)
      fd = dlk_net_sock_fd(l->grpc.net.sock);
  }
  host->watch(host, fd);
}

void dlk_etcd_link_busy(struct dlk_ss_link *l) {
  bool busy =
      !l->gone && (!l->up || l->closed || !dlk_list_empty(&l->asks.list));
  if (busy != l->busy)
    l->host->busy(l->host, busy ? 1 : -1);
  l->busy = busy;
}

void dlk_etcd_link_up(struct dlk_ss_link *l, bool up) {
  if (l->up != up) {
    l->up = up;
    watch_one(l->host, &l->client->links);
  }
  dlk_etcd_link_busy(l);
}

void dlk_etcd_link_wake(struct dlk_ss_link *l) {
  if (!l->soon.node.queued && !l->gone)
    l->host->timer_set(l->host, &l->soon, 0);
}

void dlk_etcd_link_end(struct dlk_ss_link *l, enum dlk_ss_end end,
                       const char *text) {
  if (!l->closed)
    l->events.ended(l->user, end, text);
}

/* The connection has no token, though we have a name: authentication was
 * enabled since it was made. */
static bool lacks_token(const struct dlk_ss_link *l,
                        const struct dlk_grpc_call *c) {
  return l->client->conf.username && l->grpc.token.len == 0 &&
         strstr(c->text, "user name is empty");
}

bool dlk_etcd_denied(const struct dlk_ss_link *l,
                     const struct dlk_grpc_call *c) {
  return c->status == DLK_GRPC_DENIED ||
         (c->status == DLK_GRPC_INVALID &&
          (strstr(c->text, "authentication failed") ||
           (strstr(c->text, "user name is empty") && !lacks_token(l, c))));
}

bool dlk_etcd_link_lost(struct dlk_ss_link *l, const struct dlk_grpc_call *c) {
  char text[DLK_GRPC_TEXT + 20];
  switch (c->status) {
  case DLK_GRPC_INVALID:
    if (!c->streams && !strstr(c->text, "auth store is old") &&
        !lacks_token(l, c))
      return false;
    break;
  case DLK_GRPC_OK:
  case DLK_GRPC_NOT_FOUND:
  case DLK_GRPC_DENIED:
  case DLK_GRPC_EXHAUSTED:
  case DLK_GRPC_FAILED_PRECONDITION:
  case DLK_GRPC_OUT_OF_RANGE:
    if (!c->streams)
      return false;
    break;
  default:
    break;
  }
  snprintf(text, sizeof text, "the member says: %s", c->text);
  dlk_net_conn_lost(&l->grpc.net, text);
  return true;
}

void dlk_etcd_put_epoch(const struct dlk_ss_link *l, struct dlk_buf *out) {
  struct dlk_buf key = {0};
  dlk_etcd_epoch_key(l, l->epoch, &key);
  const struct dlk_etcd_put put = {
      {key.data, key.len}, {"", 0}, .lease = l->lease};
  out->failed |= key.failed;
  if (!key.failed)
    dlk_etcd_do_put(out, &put);
  dlk_buf_free(&key);
}

size_t dlk_etcd_epoch_key(const struct dlk_ss_link *l, uint32_t epoch,
                          struct dlk_buf *out) {
  dlk_buf_addf(out, "%s/~%llx/", l->client->base, (unsigned long long)l->lease);
  size_t folder = out->len;
  dlk_buf_addf(out, "%08x", (unsigned)epoch);
  return folder;
}
