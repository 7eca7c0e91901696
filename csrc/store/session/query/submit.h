/* A store on a driver (store.h). */
#ifndef DLK_STORE_SESSION_QUERY_SUBMIT_H
#define DLK_STORE_SESSION_QUERY_SUBMIT_H

#include "store/session/recipe/contender.h"

const char *dlk_ss_prefix(const char *given);
/* "/app/dlock", the folder of all locks. NULL: no memory. */
char *dlk_ss_base(const struct dlk_conf *conf);
/* Owns client, even without memory for the store (NULL). */
void *dlk_ss_create(struct dlk_host *host, const struct dlk_conf *conf,
                    const struct dlk_ss_driver *driver, void *client,
                    const char *base, int64_t timeout);
void dlk_ss_submit(void *store, struct dlk_op *op);
void dlk_ss_cancel(void *store, struct dlk_op *op);
void dlk_ss_stop(void *store);
void dlk_ss_destroy(void *store);

/* What the types of all such stores have alike. */
#define DLK_SS_STORE                                                           \
  .abi = DLK_STORE_ABI, .op_size = sizeof(struct dlk_ss_op_data),              \
  .lease_size = sizeof(struct dlk_ss_lease_data), .submit = dlk_ss_submit,     \
  .cancel = dlk_ss_cancel, .renew = dlk_ss_renew, .stop = dlk_ss_stop,         \
  .destroy = dlk_ss_destroy, .prefix = dlk_ss_prefix,                          \
  .stop_wait = DLK_STOP_WAIT

#endif
