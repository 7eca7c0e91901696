#include "store/redlock/parts.h"

#include "core/digits.h"

void dlk_redlock_parts_add(struct dlk_buf *out, struct dlk_value *const *shown,
                           unsigned nodes) {
  for (unsigned i = 0; i < nodes; i++) {
    size_t len = shown[i] ? shown[i]->u.string.len : 0;
    dlk_buf_addf(out, "%zu ", len);
    if (len > 0)
      dlk_buf_add(out, shown[i]->u.string.data, len);
  }
}

/* Moves *at behind it; text NULL: there is none. */
static struct dlk_redlock_part next(const char **at, const char *end) {
  int64_t len = dlk_digits(at, end, 6);
  if (len < 0 || *at == end || *(*at)++ != ' ' || end - *at < len)
    return (struct dlk_redlock_part){NULL, 0};
  *at += len;
  return (struct dlk_redlock_part){*at - len, (size_t)len};
}

bool dlk_redlock_parts_fit(const char *text, size_t len, unsigned nodes) {
  const char *end = text + len;
  for (; nodes > 0; nodes--)
    if (!next(&text, end).text)
      return false;
  return text == end;
}

struct dlk_redlock_part dlk_redlock_part(const char *text, size_t len,
                                         unsigned node) {
  const char *end = text + len;
  struct dlk_redlock_part part;
  do
    part = next(&text, end);
  while (node-- > 0);
  return part;
}

enum dlk_code dlk_redlock_no_parts(struct dlk_error *err) {
  return dlk_error_set(err, DLK_INVALID,
                       "this is not a string that lease:detach() gave on a "
                       "Redlock of as many servers");
}
