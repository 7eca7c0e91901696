/* What a database does for the worker, in the worker's thread: connect, run a
 * statement, hear notices, end a lost request. All of it may block, in
 * dlk_sql_wait alone; a look-up of a name may block longer. */
#ifndef DLK_STORE_SQL_CLIENT_DIALECT_H
#define DLK_STORE_SQL_CLIENT_DIALECT_H

#include "core/buf.h"
#include "core/clock.h"
#include "core/list.h"
#include "core/secret.h"
#include "core/status.h"

/* The statements of the recipe. A table in the dialect's run.c has the text of
 * each; parameters and columns stand in the order of the function's or
 * routine's in schema.sql. */
enum dlk_sql_statement {
  DLK_SQL_PING,
  DLK_SQL_ACQUIRE,
  DLK_SQL_LEAVE,
  DLK_SQL_EXTEND,
  DLK_SQL_RENEW, /* id, token and span of each hold */
  DLK_SQL_ATTACH,
  DLK_SQL_BREAK,
  DLK_SQL_REVOKE,
  DLK_SQL_DOWNGRADE,
  DLK_SQL_PUBLISH, /* id, token, value */
  DLK_SQL_LOOK,
  DLK_SQL_INSPECT,
  DLK_SQL_LIST,
  DLK_SQL_GUARD, /* id, token, statement, its words */
  DLK_SQL_SWEEP
};

enum dlk_sql_verdict {
  DLK_SQL_GOOD,
  DLK_SQL_NOT_DONE, /* for sure; it may be asked again */
  DLK_SQL_UNSURE,   /* the connection was lost: done, or not */
  DLK_SQL_REFUSED,  /* not done, and asking again is no use */
  DLK_SQL_CROSSED   /* undone by a lock or another transaction */
};

#define DLK_SQL_ATTEMPTS 3

enum dlk_sql_kind { DLK_SQL_NULL, DLK_SQL_NUMBER, DLK_SQL_BYTES };

/* A parameter or a cell of an answer; bytes are in its call's block. */
struct dlk_sql_cell {
  enum dlk_sql_kind kind;
  int64_t number;
  size_t at, len;
};

struct dlk_sql_call {
  struct dlk_list link;
  enum dlk_sql_statement statement;
  int64_t deadline;
  void (*answer)(struct dlk_sql_call *call); /* by the loop; frees it */
  void *who;
  void *owned; /* freed with it; or NULL */
  bool failed; /* no memory for a parameter */
  int crossed; /* how often it was; at DLK_SQL_ATTEMPTS it is not repeated */
  size_t count, room;
  struct dlk_sql_cell *params;
  struct dlk_buf bytes;
  /* The answer: */
  enum dlk_sql_verdict verdict;
  bool begun;   /* it was sent once */
  bool loose;   /* an earlier request of the connection may still be done */
  int64_t sent; /* before the last attempt */
  size_t rows, columns;
  struct dlk_sql_cell *cells;
  struct dlk_buf text;
  struct dlk_error err;
};

/* Where the server is; strings are the place's. */
struct dlk_sql_place {
  char *shown, *hosts, *ports, *database, *username, *password, *schema;
  char *listen;       /* NULL, or the channel to hear */
  const char *script; /* a constant: what makes the schema */
  char *cafile, *cert, *key, *key_password, *min_version;
  bool tls, verify;
  struct dlk_secret *secret; /* the store's; NULL once that is gone */
  int64_t connect_timeout, io_timeout;
};

/* Who a connection is to the server. */
struct dlk_sql_peer {
  int64_t id, since; /* id 0: nobody */
};

struct dlk_sql_worker;

struct dlk_sql_dialect {
  const char *name;
  const char *bytes; /* of the digits in a parameter, in words */
  /* NULL: err says why. `refused` counts passwords. */
  void *(*open)(struct dlk_sql_worker *w, const struct dlk_sql_place *place,
                int64_t deadline, struct dlk_sql_peer *self,
                struct dlk_error *err);
  void (*close)(void *connection);
  /* Fills in the answer but `loose`. */
  void (*run)(struct dlk_sql_worker *w, void *connection,
              struct dlk_sql_call *call);
  /* Ends that connection. False: it may go on. */
  bool (*end)(struct dlk_sql_worker *w, void *connection,
              const struct dlk_sql_peer *peer, int64_t deadline);
  /* Begins to hear place->listen. 1: it is heard, 0: no notice came through,
   * -1: the connection is lost. */
  int (*listen)(struct dlk_sql_worker *w, void *connection, int64_t deadline);
  /* Reads notices; each goes to dlk_sql_heard. False: the connection is lost.
   */
  bool (*hear)(struct dlk_sql_worker *w, void *connection);
  int (*fd)(void *connection);
};

/* For the dialect, in the thread. Waits for `events` of fd. False: the deadline
 * passed, or the worker was told to end. */
bool dlk_sql_wait(struct dlk_sql_worker *w, int fd, short events,
                  int64_t deadline);
void dlk_sql_heard(struct dlk_sql_worker *w, const char *text);
void dlk_sql_event(struct dlk_sql_worker *w, const char *kind,
                   const char *text);
/* The password of now, in a buffer that the caller wipes; or NULL. */
const char *dlk_sql_password(struct dlk_sql_worker *w, struct dlk_buf *out,
                             unsigned *turn);
void dlk_sql_password_refused(struct dlk_sql_worker *w, unsigned turn,
                              const char *text);
/* A cell of the answer, appended to call->cells. */
void dlk_sql_cell_number(struct dlk_sql_call *call, int64_t number);
void dlk_sql_cell_bytes(struct dlk_sql_call *call, const void *p, size_t len);
void dlk_sql_cell_null(struct dlk_sql_call *call);

#endif
