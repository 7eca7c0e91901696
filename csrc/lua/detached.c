/* A detached lease as a string: `r` (renew) or `n`; `,MS` if min_hold has so
 * much left; `:` and the store's text. */
#include "core/digits.h"
#include "lua/binding.h"

int dlk_lua_push_detached(lua_State *L, struct dlk_ticket *t) {
  struct dlk_hold *h = dlk_ticket_hold(t);
  int64_t least = dlk_hold_min_left(h);
  lua_pushstring(L, dlk_hold_renews(h) ? "r" : "n");
  lua_pushstring(L, least > 0 ? "," : "");
  if (least > 0)
    dlk_compat_pushint(L, dlk_to_ms(least));
  else
    lua_pushliteral(L, "");
  lua_pushliteral(L, ":");
  dlk_lua_push_value(L, dlk_ticket_result(t));
  lua_concat(L, 5);
  return 1;
}

void dlk_lua_read_detached(struct dlk_request *r) {
  const char *p = r->text, *end = p + r->text_len;
  bool fine = *p == 'r' || *p == 'n'; /* a Lua string ends with a NUL */
  r->renew = *p == 'r';
  p += p < end;
  int64_t least = 0; /* ms */
  if (p < end && *p == ',') {
    p++;
    least = dlk_digits(&p, end, 15);
  }
  fine = fine && least >= 0 && least <= DLK_MS_MAX && p < end && *p == ':';
  r->min_hold = fine ? least * DLK_MS : 0;
  r->text = fine ? p + 1 : end;
  r->text_len = (size_t)(end - r->text);
}
