/* A store's own options as names and values. lua/dlock/options.lua has their
 * types and defaults. */
#ifndef DLK_CORE_OPTION_H
#define DLK_CORE_OPTION_H

#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct dlk_option {
  const char *name;
  const char *key;  /* in a table of options; else NULL */
  const char *text; /* may be a secret; NULL: a number or a boolean */
  double number;
};

struct dlk_options {
  const struct dlk_option *list;
  size_t count;
};

/* key NULL: any. NULL: not given. */
const struct dlk_option *dlk_option_find(const struct dlk_options *all,
                                         const char *name, const char *key);
/* NULL: not given. */
const char *dlk_option_text(const struct dlk_options *all, const char *name);
/* From seconds. */
int64_t dlk_option_ns(const struct dlk_options *all, const char *name,
                      int64_t otherwise);
double dlk_option_number(const struct dlk_options *all, const char *name,
                         double otherwise);
/* `invalid` if a name is not in `known`, which NULL ends. shown: the URL. */
enum dlk_code dlk_option_check(const struct dlk_options *all,
                               const char *const *known, const char *shown,
                               struct dlk_error *err);

#endif
