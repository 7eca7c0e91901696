#include "zookeeper_user.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "store/zookeeper/zookeeper.h"

struct host *h;
int revoked, renewals;
const char *lost_why;

static void on_revoked(struct host *host, struct dlk_lease *lease) {
  (void)host;
  (void)lease;
  revoked++;
}

static void on_renewed(struct host *host, struct dlk_lease *lease, bool ok) {
  (void)host;
  (void)lease;
  renewals += ok;
}

static void on_lost(struct host *host, struct dlk_lease *lease,
                    const char *why) {
  (void)host;
  (void)lease;
  lost_why = why;
}

void start(void) {
  start_in("");
}

void start_in(const char *chroot) {
  static const struct dlk_addr at = {"server", 0};
  const struct dlk_option timeout = {.name = "session_timeout",
                                     .number = (double)TIMEOUT / DLK_SEC};
  struct dlk_conf conf = {.shown = "zookeeper://server",
                          .scheme = "zookeeper",
                          .hosts = &at,
                          .host_count = 1,
                          .path = chroot,
                          .options = {&timeout, 1},
                          .connect_timeout = 3 * DLK_SEC,
                          .io_timeout = 2 * DLK_SEC};
  fake_reset();
  revoked = renewals = 0;
  lost_why = NULL;
  h = host_open(&dlk_zookeeper_store, &conf, NULL);
  h->on_revoked = on_revoked;
  h->on_renewed = on_renewed;
  h->on_lost = on_lost;
}

struct dlk_op *submit(enum dlk_op_kind kind, struct dlk_lease *lease,
                      const char *key) {
  struct dlk_op *op = host_op(h, kind, lease, key, key ? strlen(key) : 0);
  op->wait = kind == DLK_OP_ACQUIRE;
  host_submit(h, op);
  return op;
}

struct dlk_lease *candidate(const char *key, uint32_t units) {
  return host_lease(h, key, strlen(key), (struct dlk_want){units, 0}, "me");
}

bool ended(struct dlk_op *op, enum dlk_code code) {
  bool as_wanted = host_over(op) && host_error(op)->code == code;
  if (!as_wanted)
    printf("over: %d, %s\n", host_over(op), host_error(op)->text);
  if (host_over(op))
    host_op_free(op);
  return as_wanted;
}

struct dlk_lease *held(const char *key) {
  struct dlk_lease *lease = candidate(key, 0);
  struct dlk_op *op = submit(DLK_OP_ACQUIRE, lease, NULL);
  if (!host_over(op) && fake_waiting() == 0)
    fake_connected(TIMEOUT);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  return lease;
}

void release(struct dlk_lease *lease) {
  struct dlk_op *op = submit(DLK_OP_RELEASE, lease, NULL);
  fake_serve();
  CHECK(ended(op, DLK_OK));
  free(lease);
}

void gets_it(struct dlk_op *op, struct dlk_lease *lease) {
  fake_serve();
  CHECK(ended(op, DLK_OK));
  release(lease);
}
