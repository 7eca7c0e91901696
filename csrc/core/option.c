/* Looks options up by name. */
#include "core/option.h"

#include <string.h>

#include "core/clock.h"

const struct dlk_option *dlk_option_find(const struct dlk_options *all,
                                         const char *name, const char *key) {
  for (size_t i = 0; i < all->count; i++) { /* list may be NULL */
    const struct dlk_option *o = &all->list[i];
    if (strcmp(o->name, name) == 0 &&
        (!key || (o->key && strcmp(o->key, key) == 0)))
      return o;
  }
  return NULL;
}

const char *dlk_option_text(const struct dlk_options *all, const char *name) {
  const struct dlk_option *o = dlk_option_find(all, name, NULL);
  return o ? o->text : NULL;
}

double dlk_option_number(const struct dlk_options *all, const char *name,
                         double otherwise) {
  const struct dlk_option *o = dlk_option_find(all, name, NULL);
  return o && !o->text ? o->number : otherwise;
}

int64_t dlk_option_ns(const struct dlk_options *all, const char *name,
                      int64_t otherwise) {
  double s = dlk_option_number(all, name, -1);
  return s < 0 ? otherwise : dlk_from_seconds(s);
}

enum dlk_code dlk_option_check(const struct dlk_options *all,
                               const char *const *known, const char *shown,
                               struct dlk_error *err) {
  for (size_t i = 0; i < all->count; i++) {
    const char *const *k = known;
    while (*k && strcmp(all->list[i].name, *k) != 0)
      k++;
    if (!*k)
      return dlk_error_set(err, DLK_INVALID,
                           "%s: the option '%.64s' has no meaning for this "
                           "store; leave it out",
                           shown, all->list[i].name);
  }
  return DLK_OK;
}
