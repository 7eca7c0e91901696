/* What a session's parts need of it: its state, its end, its loss. */
#include "store/session/consul/link.h"

#include <stdio.h>
#include <string.h>

#include "core/secret.h"

void dlk_consul_busy(struct dlk_ss_link *l) {
  bool rests = l->state == DLK_CONSUL_UP && dlk_list_empty(&l->asks.list);
  bool busy = l->state != DLK_CONSUL_GONE && !rests;
  if (busy != l->busy)
    l->host->busy(l->host, busy ? 1 : -1);
  l->busy = busy;
}

void dlk_consul_state(struct dlk_ss_link *l, enum dlk_consul_state state) {
  struct dlk_host *host = l->host;
  struct dlk_list *all = &l->client->links;
  int fd = -1;
  l->state = state;
  for (struct dlk_list *at = all->next; at != all; at = at->next) {
    struct dlk_ss_link *one = DLK_CONTAINER(at, struct dlk_ss_link, in_client);
    if (one->state == DLK_CONSUL_UP)
      fd = one->http.all;
  }
  host->watch(host, fd);
  dlk_consul_busy(l);
}

void dlk_consul_end(struct dlk_ss_link *l, enum dlk_ss_end end,
                    const char *text) {
  if (l->state < DLK_CONSUL_CLOSED)
    l->events.ended(l->user, end, text);
}

void dlk_consul_epoch_key(const struct dlk_ss_link *l, struct dlk_buf *out) {
  dlk_consul_prefix(out, l->client->base);
  dlk_buf_addf(out, ",-%s", l->session);
}

void dlk_consul_cut(struct dlk_ss_link *l, const char *why) {
  if (l->state != DLK_CONSUL_UP)
    return;
  l->cut = dlk_ss_keep_text(l->client->texts, why);
  dlk_consul_state(l, DLK_CONSUL_AWAY);
  l->host->timer_set(l->host, &l->soon, 0);
}

bool dlk_consul_token(struct dlk_ss_link *l) {
  const struct dlk_conf *conf = &l->client->conf;
  struct dlk_buf now = {0};
  unsigned turn = l->turn;
  const char *token = conf->password;
  if (conf->secret)
    token = dlk_secret_read(conf->secret, &now, &l->turn) ? now.data : NULL;
  bool known = l->http.headers && turn == l->turn;
  bool ok = !now.failed && (known || dlk_http_token(&l->http, token));
  dlk_buf_wipe(&now);
  return ok;
}

void dlk_consul_refused(struct dlk_ss_link *l, const char *text) {
  const struct dlk_conf *conf = &l->client->conf;
  char event[400];
  snprintf(event, sizeof event, "%s: %s", conf->shown, text);
  if (conf->secret && dlk_secret_refused(conf->secret, l->turn))
    l->host->event(l->host, "denied", event);
}

bool dlk_consul_retries(struct dlk_ss_link *l, const struct dlk_http_call *c) {
  char text[200];
  unsigned turn = l->turn;
  if (!l->client->conf.secret)
    return false;
  if (c->outdated)
    return true;
  if (!dlk_consul_token(l))
    return false;
  if (turn != l->turn)
    return true;
  snprintf(text, sizeof text, "%.*s", c->in.len < 199 ? (int)c->in.len : 199,
           c->in.len ? c->in.data : "");
  if (strstr(text, "ACL not found")) /* else it may lack a right */
    dlk_consul_refused(l, text);
  return false;
}

bool dlk_consul_silent(const struct dlk_http_call *c) {
  return c->status == 0 || c->status == 429 || c->status >= 500;
}

bool dlk_consul_lost(struct dlk_ss_link *l, const struct dlk_http_call *c) {
  char why[300];
  if (dlk_consul_silent(c)) {
    snprintf(why, sizeof why, "%.*s%s", c->in.len < 200 ? (int)c->in.len : 200,
             c->in.len ? c->in.data : "", c->text);
    dlk_consul_cut(l, why);
  }
  return l->state != DLK_CONSUL_UP;
}
