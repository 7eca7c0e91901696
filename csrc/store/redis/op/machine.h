/* What the state machines of the Redis store share. They know the network
 * only by link.h and the engine only by store.h, so a simulation can run
 * them as they are. */
#ifndef DLK_STORE_REDIS_MACHINE_H
#define DLK_STORE_REDIS_MACHINE_H

#include <string.h>

#include "core/map.h"
#include "store/redis/conn/link.h"
#include "store/redis/wire/codec.h"
#include "store/redis/wire/errors.h"
#include "store/store.h"

/* A token: 32 random digits, ':', 16 digits of the client, ':', the owner. */
#define DLK_REDIS_OWNER_AT 50
#define DLK_REDIS_OWNER_MAX 64
#define DLK_REDIS_TOKEN_MAX (DLK_REDIS_OWNER_AT + DLK_REDIS_OWNER_MAX)
/* A hand-off is good for so long unless it is confirmed. */
#define DLK_REDIS_CLAIM DLK_SEC
/* Fences below were counted without a seed. */
#define DLK_REDIS_FENCE_SEEDED INT64_C(1000000000000)
/* How inspect and change name a hold whose fence is not certain, in place of a
 * fence: from -2 downwards, by so many digits that its token begins with. That
 * fits into a number of Lua. */
#define DLK_REDIS_ID 12
#define DLK_REDIS_ID_FIRST INT64_C(-2)
#define DLK_REDIS_LATELY 1024
#define DLK_REDIS_ORPHANS 4096

struct dlk_redis;
struct dlk_redis_call;
struct dlk_redis_hold;

enum dlk_redis_verdict {
  DLK_REDIS_GOOD,     /* reply */
  DLK_REDIS_NOT_DONE, /* certainly not executed; may be sent again */
  DLK_REDIS_UNSURE,   /* the connection was lost: executed, or not */
  DLK_REDIS_BAD       /* not executed, and sending it again is no use */
};

struct dlk_redis_result {
  enum dlk_redis_verdict verdict;
  const struct redisReply *reply; /* GOOD */
  const struct dlk_error *err;    /* not GOOD */
};

typedef void dlk_redis_heard(struct dlk_redis_call *call,
                             const struct dlk_redis_result *r);
typedef void dlk_redis_args(struct dlk_redis_call *call, struct dlk_buf *out);

/* One request of a machine: a script on the names of one key, or whatever
 * `encode` writes. Embedded in whoever waits for it, which must not go away
 * while busy is true. */
struct dlk_redis_call {
  struct dlk_redis_req req;
  struct dlk_redis *store;
  dlk_redis_heard *answer;
  /* Writes the ARGV of a script, or all of another command. */
  dlk_redis_args *args;
  /* Not NULL: all of another command with four replies, which is written
   * instead of the script while fence.c allows a plain INCR. */
  dlk_redis_args *plain;
  const char *key;
  size_t key_len;
  int64_t holds;    /* for how long the lease that it is about may hold */
  const char *tail; /* ACQUIRE: one more argument, or NULL */
  size_t tail_len;
  size_t more;   /* arguments beyond the script's own */
  int8_t script; /* enum dlk_redis_script, or -1 */
  bool by_text, busy;
  bool lifts;    /* it was written so that it lifts the counter (fence.c) */
  bool as_plain; /* `plain` was written */
  /* What was written behind it may not overtake it: where the script is not
   * known there it has failed, and goes as text the next time. */
  bool in_order, text_next;
};

/* lease->data */
struct dlk_redis_hold {
  struct dlk_lease *lease;
  struct dlk_op *waiting;     /* the acquire that still waits, or NULL: held */
  struct dlk_redis_call call; /* renewals */
  struct dlk_map_node node;   /* in store->tokens, by token */
  int64_t until;              /* the server keeps it so long at least */
  int64_t asked;              /* it may keep it so long: an extension */
  int64_t granted;            /* for min_hold */
  uint32_t number;            /* how many extensions were written */
  bool cut;                   /* the server keeps it for too long */
  bool crowded;               /* others queued for it */
  bool noted;                 /* the server keeps notes of it (info) */
  bool broken;                /* said a message that crossed a renewal */
  uint8_t token_len;
  char token[DLK_REDIS_TOKEN_MAX + 1];
};

enum dlk_redis_step {
  DLK_REDIS_IDLE,
  DLK_REDIS_TRYING,
  DLK_REDIS_SEEDING,
  DLK_REDIS_DEAF_STEP, /* waits for the subscription */
  DLK_REDIS_JOINING,   /* join or refresh is under way */
  DLK_REDIS_WAITING,
  DLK_REDIS_LEAVING
};

/* op->data */
struct dlk_redis_try {
  struct dlk_redis *store;
  struct dlk_op *op;
  struct dlk_redis_call call;
  struct dlk_timer timer;
  struct dlk_list entry; /* in store->waits, or watches */
  enum dlk_redis_step step;
  bool joined; /* this token has a place in the queue */
  bool news;   /* a message came while a request was under way */
  bool unsure; /* one of unknown outcome went before: a release, an attach */
  bool ours;   /* a release found our token */
  bool alone;  /* its MULTI was refused, its SET may have been done */
  bool answered;
  uint32_t rank;
  int64_t waited_at, waited_fence; /* of the last `wait`: sent, and F */
  char order[24];
  const struct dlk_error *trouble; /* kept: why there is no answer */
};

/* What is known of a key that was used lately. */
struct dlk_redis_lately {
  uint64_t hash;
  int64_t until;
};

struct dlk_redis {
  struct dlk_host *host;
  struct dlk_conf conf;
  struct dlk_redis_link *link;
  const char *prefix;
  char client[17], channel[32];
  struct dlk_map tokens; /* of waits and holds */
  struct dlk_list waits, watches;
  struct dlk_list orphans;
  size_t orphan_count;
  struct dlk_timer quiet;
  struct dlk_redis_lately crowded[DLK_REDIS_LATELY];
  /* Counters that were lifted on that connection, and until when they stay. */
  struct dlk_redis_lately lifted[DLK_REDIS_LATELY];
  uint64_t lifted_on, seed;
  int64_t clock_warned;
  bool stopping;
  /* The last key whose tag was computed: a release follows its acquire. */
  size_t last_len;
  char last_key[DLK_KEY_MAX], last_tag[DLK_REDIS_TAG];
};

static inline struct dlk_redis_hold *dlk_redis_hold_of(struct dlk_lease *l) {
  return l->data;
}

static inline struct dlk_redis_try *dlk_redis_try_of(struct dlk_op *op) {
  return op->data;
}

static inline int64_t dlk_redis_now(struct dlk_redis *s) {
  return s->host->now(s->host);
}

/* call.c: as dlk_redis_name_make, with the store's prefix. */
bool dlk_redis_name(struct dlk_redis *s, struct dlk_redis_name *name,
                    const char *key, size_t len);
/* Sends call's script (or what args writes, with script -1 and
 * `replies`). */
void dlk_redis_call_send(struct dlk_redis_call *call);
void dlk_redis_call_script(struct dlk_redis_call *call,
                           enum dlk_redis_script script);
/* The script, or `plain` where that will do when it is written (fence.c). */
void dlk_redis_call_either(struct dlk_redis_call *call,
                           enum dlk_redis_script script, dlk_redis_args *plain);
/* True: it was not sent and will not be. */
bool dlk_redis_call_withdraw(struct dlk_redis_call *call);
/* The i-th integer of an array reply, or `none`. */
int64_t dlk_redis_int(const struct redisReply *reply, size_t i, int64_t none);
/* How an array reply begins: its first string, or "". */
const char *dlk_redis_word(const struct redisReply *reply);
/* A reply that no server of ours would give. */
enum dlk_code dlk_redis_odd(struct dlk_redis *s, struct dlk_error *err);

/* redis.c */
void dlk_redis_done(struct dlk_redis_try *t, const struct dlk_error *err);
/* There was one: whatever trouble there had been is over. */
void dlk_redis_answered(struct dlk_redis_try *t);
/* Notes why there is no answer. */
void dlk_redis_trouble(struct dlk_redis_try *t, const struct dlk_error *why);
void dlk_redis_done_code(struct dlk_redis_try *t, enum dlk_code code);
/* Whether a request that was not executed is worth sending again. */
bool dlk_redis_patient(struct dlk_redis_try *t);
bool dlk_redis_is_crowded(struct dlk_redis *s, const char *key, size_t len);
void dlk_redis_mark_crowded(struct dlk_redis *s, const char *key, size_t len);

/* fence.c */
/* Whether the key is marked in the table until then at least. */
bool dlk_redis_lately(struct dlk_redis *s, struct dlk_redis_lately *table,
                      const char *key, size_t len, int64_t until);
void dlk_redis_lately_mark(struct dlk_redis *s, struct dlk_redis_lately *table,
                           const char *key, size_t len, int64_t until);
/* For how long the counter of the call's key is to stay. */
int64_t dlk_redis_fence_memory(const struct dlk_redis_call *call);
/* Whether the counter was lifted on this connection, */
bool dlk_redis_fence_is_lifted(struct dlk_redis_call *call);
/* and stays for long enough, so that a plain INCR will do. */
bool dlk_redis_fence_is_plain(struct dlk_redis_call *call);
/* The answer says that it is; stays: and that its time was set. */
void dlk_redis_fence_lifted(struct dlk_redis_call *call, bool stays);
/* Others use the key: the next attempt goes by the script. */
void dlk_redis_fence_contended(struct dlk_redis_call *call);

/* token.c */
/* A token of its own for the hold, which nobody has asked for yet; messages
 * for it are not heard before it is put. */
void dlk_redis_token_make(struct dlk_redis *s, struct dlk_redis_hold *h);
void dlk_redis_token_new(struct dlk_redis *s, struct dlk_redis_hold *h);
void dlk_redis_token_drop(struct dlk_redis *s, struct dlk_redis_hold *h);
/* `to` has it from now on. */
void dlk_redis_token_move(struct dlk_redis *s, struct dlk_redis_hold *from,
                          struct dlk_redis_hold *to);
struct dlk_redis_hold *dlk_redis_token_find(struct dlk_redis *s,
                                            const char *token, size_t len);
void dlk_redis_token_put(struct dlk_redis *s, struct dlk_redis_hold *h);
/* Whom a value of the lock's key names, for people. */
void dlk_redis_holder_text(char out[DLK_HOLDER_MAX], const char *value,
                           size_t len);

/* acquire.c */
void dlk_redis_acquire(struct dlk_redis_try *t);
void dlk_redis_acquire_cancel(struct dlk_redis_try *t);
/* claim: 0, or when it must be confirmed by. */
void dlk_redis_granted(struct dlk_redis_try *t, int64_t fence, int64_t sent,
                       int64_t claim);
/* The outcome of the current token is unknown, or the server forgot it: have
 * it taken back, go on with a new one. */
void dlk_redis_new_token(struct dlk_redis_try *t, bool take_back);
/* The same; what `first` sends with the new token goes before the old one is
 * taken back. */
void dlk_redis_replace_token(struct dlk_redis_try *t, bool take_back,
                             void (*first)(struct dlk_redis_try *t));
/* The server said that others share under another limit. */
void dlk_redis_other_limit(struct dlk_redis_try *t);
/* Ends the op early, in the way that its `ending` asks for. */
void dlk_redis_give_up(struct dlk_redis_try *t);

/* wait.c */
void dlk_redis_queue(struct dlk_redis_try *t);
void dlk_redis_queue_refresh(struct dlk_redis_try *t);
/* A message said that the lock was handed to its token, with this fence. */
void dlk_redis_queue_handed(struct dlk_redis_try *t, int64_t fence);
void dlk_redis_queue_cancel(struct dlk_redis_try *t);
/* A wait is over: has the server forget it, if it knows it. */
void dlk_redis_withdraw(struct dlk_redis_try *t, enum dlk_redis_script script,
                        dlk_redis_args *encode, dlk_redis_heard *answer);

/* hold.c */
/* The number, also when it is the first of several. */
int64_t dlk_redis_number(const struct redisReply *reply, int64_t none);
/* ARGV of a renewal; ttl 0: the hold's end stays; exact: it ends then even if
 * it would have stayed for longer. */
void dlk_redis_renew_args(struct dlk_redis *s, struct dlk_redis_hold *h,
                          int64_t ttl, bool exact, struct dlk_buf *out);
/* The answer to a renewal. True: the hold is ours, until `until` at least. */
bool dlk_redis_extended(struct dlk_redis *s, struct dlk_redis_hold *h,
                        int64_t left, int64_t ttl, int64_t sent);
/* No answer: `again`, while that may help, or the op's end. */
void dlk_redis_retry(struct dlk_redis_try *t, const struct dlk_redis_result *r,
                     void (*again)(struct dlk_redis_try *));
void dlk_redis_release(struct dlk_redis_try *t);
void dlk_redis_release_cancel(struct dlk_redis_try *t);
void dlk_redis_extend(struct dlk_redis_try *t);
void dlk_redis_renew(void *store, struct dlk_lease *const *leases,
                     size_t count);
void dlk_redis_hand_over(void *store, struct dlk_lease *from,
                         struct dlk_lease *to);
void dlk_redis_broken(struct dlk_redis *s, struct dlk_redis_hold *h);
void dlk_redis_leave_args(struct dlk_buf *out, const char *token, size_t len,
                          int64_t rest);

/* attach.c */
void dlk_redis_detach(struct dlk_redis_try *t);
void dlk_redis_attach(struct dlk_redis_try *t);
void dlk_redis_attach_cancel(struct dlk_redis_try *t);

/* For how long we have held it, as far as we know. */
int64_t dlk_redis_held_ms(struct dlk_redis *s, const struct dlk_redis_hold *h);

/* look.c */
void dlk_redis_inspect(struct dlk_redis_try *t);
void dlk_redis_list(struct dlk_redis_try *t);
/* Ends the op with v; NULL: out of memory. */
void dlk_redis_finish(struct dlk_redis_try *t, struct dlk_value *v);
/* False: there is an answer. Else a request that may be repeated was sent once
 * more, or the op has ended. */
bool dlk_redis_failed(struct dlk_redis_try *t,
                      const struct dlk_redis_result *r);

/* admin.c */
void dlk_redis_break(struct dlk_redis_try *t);
void dlk_redis_revoke(struct dlk_redis_try *t);
void dlk_redis_downgrade(struct dlk_redis_try *t);
void dlk_redis_guard(struct dlk_redis_try *t);

/* change.c */
void dlk_redis_change(struct dlk_redis_try *t);
void dlk_redis_change_cancel(struct dlk_redis_try *t);
/* The holder of this lock is another one (lock NULL: of any, perhaps). */
void dlk_redis_changed(struct dlk_redis *s, const char *lock, size_t len);

/* small.c */
void dlk_redis_ping(struct dlk_redis_try *t);
void dlk_redis_locked(struct dlk_redis_try *t);

/* orphan.c: has the server forget a token in the background, until `until`
 * (when it has forgotten it by itself). */
void dlk_redis_orphan(struct dlk_redis *s, const char *key, size_t key_len,
                      const char *token, size_t token_len, int64_t until);
/* The same for an attach of unknown outcome: has the server give the lease's
 * hold back to the token that it was detached with. */
void dlk_redis_orphan_attach(struct dlk_redis *s, const struct dlk_lease *lease,
                             const char *back, size_t back_len, int64_t until);
void dlk_redis_orphans_end(struct dlk_redis *s);

#endif
