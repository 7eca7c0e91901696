/* A detached lease, or a cursor of a list: the strings that the nodes gave, as
 * "length blank string" for each node, 0 where there is none. */
#ifndef DLK_STORE_REDLOCK_PARTS_H
#define DLK_STORE_REDLOCK_PARTS_H

#include "core/buf.h"
#include "core/status.h"

struct dlk_redlock_part {
  const char *text; /* NUL-ended only behind the last one */
  size_t len;
};

/* Adds the next node's. */
void dlk_redlock_parts_add(struct dlk_buf *out, const char *text, size_t len);
/* len 0: the node has none. text NULL: there is not one for each node, or
 * something behind them. */
struct dlk_redlock_part dlk_redlock_part(const char *text, size_t len,
                                         unsigned nodes, unsigned node);
/* DLK_INVALID: there is not. */
enum dlk_code dlk_redlock_parts_check(const char *text, size_t len,
                                      unsigned nodes, struct dlk_error *err);

#endif
