/* An error of the severity ERROR undid the whole call, so nothing is UNSURE
 * here. What ends the connection is UNSURE whatever it says (run.c). */
#include "store/sql/postgres/errors.h"

#include <stdio.h>

static const struct dlk_pg_error table[] = {
    {"40P01", DLK_SQL_CROSSED, DLK_UNAVAILABLE, false, false}, /* deadlock */
    {"40001", DLK_SQL_CROSSED, DLK_UNAVAILABLE, false, false}, /* serialized */
    {"55P03", DLK_SQL_CROSSED, DLK_UNAVAILABLE, false,
     false}, /* lock_timeout */
    {"25006", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, true, false},  /* read-only */
    {"57014", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, false, false}, /* cancelled */
    {"57P", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, true, false},    /* shutdown */
    {"53", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, false, false},    /* no room */
    {"08", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, true, false},
    {"28", DLK_SQL_REFUSED, DLK_DENIED, false, false},
    {"42501", DLK_SQL_REFUSED, DLK_DENIED, false, false},
    {"26000", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, false, false}, /* run.c */
    {"42883", DLK_SQL_REFUSED, DLK_INVALID, false, true},  /* no function */
    {"3F000", DLK_SQL_REFUSED, DLK_INVALID, false, true},  /* no schema */
    {"42P01", DLK_SQL_REFUSED, DLK_INVALID, false, true},  /* no table */
    {"3D000", DLK_SQL_REFUSED, DLK_INVALID, false, false}, /* no database */
    {"58", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, false, false},
    {"XX", DLK_SQL_NOT_DONE, DLK_UNAVAILABLE, false, false},
    {"", DLK_SQL_REFUSED, DLK_INVALID, false, false},
};

const struct dlk_pg_error *dlk_pg_error_find(const char *state) {
  const struct dlk_pg_error *e = table;
  while (strncmp(state, e->state, strlen(e->state)) != 0)
    e++;
  return e;
}

/* "FATAL:  28P01: password authentication failed…": the severity may be in any
 * language. */
static const char *find_state(const char *text) {
  for (const char *at = strstr(text, ":  "); at; at = strstr(at + 1, ":  ")) {
    const char *p = at + 3;
    size_t n = strspn(p, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    if (n == 5 && p[5] == ':')
      return p;
  }
  return NULL;
}

void dlk_pg_error_read(const char *text, char state[6], char *out,
                       size_t room) {
  const char *found = find_state(text);
  state[0] = '\0';
  if (found) {
    memcpy(state, found, 5);
    state[5] = '\0';
    text = found + 6 + strspn(found + 6, " ");
  }
  size_t n = strcspn(text, "\n");
  if (n >= room)
    n = room - 1;
  memcpy(out, text, n);
  out[n] = '\0';
}
