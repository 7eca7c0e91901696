/* A store's own options, as open() was given them: names and values. What they
 * mean, the store knows; which there are, of what type and with which default,
 * lua/dlock/options.lua says, and docs/reference.md to users. */
#ifndef DLK_CORE_OPTION_H
#define DLK_CORE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

struct dlk_option {
  const char *name;
  const char *key;  /* of an entry of a table, each of which is an option of
                       the table's name; else NULL */
  const char *text; /* may be a secret; NULL: it is a number, or a boolean */
  double number;
};

struct dlk_options {
  const struct dlk_option *list;
  size_t count;
};

/* The first one of that name, and (key: not NULL) of that key; NULL: it was
 * not given. */
const struct dlk_option *dlk_option_find(const struct dlk_options *all,
                                         const char *name, const char *key);
/* NULL: it was not given. */
const char *dlk_option_text(const struct dlk_options *all, const char *name);
/* Seconds, as ns. */
int64_t dlk_option_ns(const struct dlk_options *all, const char *name,
                      int64_t otherwise);
double dlk_option_number(const struct dlk_options *all, const char *name,
                         double otherwise);
/* `invalid`, naming the option, if there is one whose name is not among these,
 * of which the last is NULL. shown: the store's URL. */
enum dlk_code dlk_option_check(const struct dlk_options *all,
                               const char *const *known, const char *shown,
                               struct dlk_error *err);

#endif
