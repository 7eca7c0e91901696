/* An error of the server undid the whole call, unless the statement was told to
 * stop: that may come behind the COMMIT. The library's own end the connection,
 * and run.c knows whether the call was sent. */
#include "store/sql/mysql/errors.h"

#define TRY_AGAIN DLK_SQL_NOT_DONE, DLK_UNAVAILABLE
#define NO_USE(code) DLK_SQL_REFUSED, code

static const struct dlk_my_error table[] = {
    {1205, DLK_SQL_CROSSED, DLK_UNAVAILABLE, false, false}, /* lock wait */
    {1213, DLK_SQL_CROSSED, DLK_UNAVAILABLE, false, false}, /* deadlock */
    {1317, DLK_SQL_UNSURE, DLK_UNAVAILABLE, false, false},  /* KILL QUERY */
    {1969, DLK_SQL_UNSURE, DLK_UNAVAILABLE, false, false},  /* its time */
    {3024, DLK_SQL_UNSURE, DLK_UNAVAILABLE, false, false},
    {1053, DLK_SQL_UNSURE, DLK_UNAVAILABLE, true, false}, /* shutdown */
    {1927, DLK_SQL_UNSURE, DLK_UNAVAILABLE, true, false}, /* KILL */
    {1290, TRY_AGAIN, true, false},                       /* read_only */
    {1836, TRY_AGAIN, true, false},
    {1792, TRY_AGAIN, true, false},
    {1040, TRY_AGAIN, true, false}, /* too many connections */
    {1203, TRY_AGAIN, true, false},
    {1226, TRY_AGAIN, true, false},
    {1129, TRY_AGAIN, true, false},  /* after many errors of this host */
    {1021, TRY_AGAIN, false, false}, /* disk full, no memory, no room */
    {1037, TRY_AGAIN, false, false},
    {1041, TRY_AGAIN, false, false},
    {1114, TRY_AGAIN, false, false},
    {1206, TRY_AGAIN, false, false},
    {2026, TRY_AGAIN, true, false}, /* TLS; when connecting: below */
    {1044, NO_USE(DLK_DENIED), false, false},
    {1045, NO_USE(DLK_DENIED), false, false},
    {1130, NO_USE(DLK_DENIED), false, false},
    {1142, NO_USE(DLK_DENIED), false, false},
    {1143, NO_USE(DLK_DENIED), false, false},
    {1227, NO_USE(DLK_DENIED), false, false},
    {1251, NO_USE(DLK_DENIED), false, false}, /* how to log in */
    {1370, NO_USE(DLK_DENIED), false, true},
    {1524, NO_USE(DLK_DENIED), false, false},
    {1698, NO_USE(DLK_DENIED), false, false},
    {1820, NO_USE(DLK_DENIED), false, false}, /* password is too old */
    {1862, NO_USE(DLK_DENIED), false, false},
    {2059, NO_USE(DLK_DENIED), true, false}, /* no plugin for the login */
    {2061, NO_USE(DLK_DENIED), true, false},
    {1146, NO_USE(DLK_INVALID), false, true}, /* no table */
    {1305, NO_USE(DLK_INVALID), false, true}, /* no procedure */
    {0, NO_USE(DLK_INVALID), false, false},
};

bool dlk_my_error_is_local(unsigned number) {
  return (number >= 2000 && number < 3000) || number >= 5000;
}

const struct dlk_my_error *dlk_my_error_find(unsigned number) {
  static const struct dlk_my_error local = {0, TRY_AGAIN, true, false};
  const struct dlk_my_error *e = table;
  while (e->number != number && e->number != 0)
    e++;
  return e->number == 0 && dlk_my_error_is_local(number) ? &local : e;
}
