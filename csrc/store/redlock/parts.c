#include "store/redlock/parts.h"

#include "core/digits.h"

void dlk_redlock_parts_add(struct dlk_buf *out, const char *text, size_t len) {
  dlk_buf_addf(out, "%zu ", len);
  if (len > 0)
    dlk_buf_add(out, text, len);
}

struct dlk_redlock_part dlk_redlock_part(const char *text, size_t len,
                                         unsigned nodes, unsigned node) {
  struct dlk_redlock_part found = {NULL, 0};
  const char *end = text + len;
  for (unsigned i = 0; i < nodes; i++) {
    int64_t n = dlk_digits(&text, end, 6);
    if (n < 0 || text == end || *text++ != ' ' || end - text < n)
      return (struct dlk_redlock_part){NULL, 0};
    if (i == node)
      found = (struct dlk_redlock_part){text, (size_t)n};
    text += n;
  }
  return text == end ? found : (struct dlk_redlock_part){NULL, 0};
}

enum dlk_code dlk_redlock_parts_check(const char *text, size_t len,
                                      unsigned nodes, struct dlk_error *err) {
  if (dlk_redlock_part(text, len, nodes, 0).text)
    return DLK_OK;
  return dlk_error_set(err, DLK_INVALID,
                       "this is not a string that lease:detach() gave on a "
                       "Redlock of as many servers");
}
