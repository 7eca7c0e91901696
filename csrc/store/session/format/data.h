/* What a contender's node says about it. */
#ifndef DLK_STORE_SESSION_FORMAT_DATA_H
#define DLK_STORE_SESSION_FORMAT_DATA_H

#include "core/buf.h"
#include "store/store.h"

struct dlk_ss_data {
  char owner[128];
  const char *value; /* escaped, in the data; NULL if none */
  size_t value_len;
  bool shared, revoked;
  int64_t ttl_ms, since_ms;
  int64_t fence, end_ms; /* a stand-in's; else 0. end_ms: for people */
};

void dlk_ss_data_format(struct dlk_buf *out, const struct dlk_lease *lease);
/* The data with that owner, and this process, in place of the ones there. */
void dlk_ss_data_reown(struct dlk_buf *out, const char *data, size_t len,
                       const char *owner);
void dlk_ss_data_parse(const char *data, size_t len, struct dlk_ss_data *out);
int64_t dlk_ss_wall_ms(void);

#endif
