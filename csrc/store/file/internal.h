/* What the file store's files share. Everything here runs in the engine's
 * driver role, one call at a time; only fork.c has state of the process.
 *
 * Functions that return int answer 0 or an errno; EAGAIN means that another
 * process has the short mutex: try again in a moment. */
#ifndef DLK_STORE_FILE_INTERNAL_H
#define DLK_STORE_FILE_INTERNAL_H

#include <dirent.h>
#include <sys/types.h>
#include <uv.h>

#include "core/list.h"
#include "core/map.h"
#include "store/file/file.h"
#include "store/file/format/name.h"
#include "store/file/format/table.h"

#define DLK_FILE_OPEN_MAX 64  /* key files kept open */
#define DLK_FILE_PEERS_MAX 64 /* other stores' pipes kept open unwatched */
#define DLK_FILE_BATCH 32     /* grants in one hold of the mutex */
#define DLK_FILE_SCAN 10000   /* holders looked at in one go */

/* The modes of our files (dir.c): made, but not written to; in use. */
#define DLK_FILE_NEW 01700
#define DLK_FILE_MADE 01600

#define DLK_FILE_ALL 0 /* instead of a token: look at all of yours */

struct dlk_file_store {
  struct dlk_host *host;
  char *path, *prefix;
  size_t prefix_len;
  int dir, meta, wake; /* descriptors, -1 until connected */
  uid_t user;          /* whose the directory is: ours */
  char *wake_path;
  ino_t wake_node;
  uint64_t instance; /* names this store's pipe, marks its entries */
  uint64_t token;    /* the last one given out */
  int64_t ttl;       /* that and shorter ones are known to "~store" */
  uint8_t boot[16];
  uv_poll_t *wake_poll;
  size_t handles; /* libuv handles not closed yet */
  bool stopping;
  struct dlk_map keys; /* open key files, by full key */
  struct dlk_list recent;
  size_t key_count, created;
  struct dlk_map entries; /* ours that stand in a table, by token */
  struct dlk_map peers;   /* by instance */
  struct dlk_list idle;   /* peers nobody watches */
  size_t idle_count;
  struct dlk_list ops; /* submitted and not ended */
  DIR *sweep;
  size_t sweep_names; /* left to look at in this portion */
  struct dlk_timer sweep_timer;
  bool holders_changed; /* since the mutex was taken */
  struct dlk_file_table table;
};

/* A key's file, open. */
struct dlk_file_key {
  struct dlk_map_node node;
  struct dlk_list link;
  int fd;
  bool checked; /* the file says that it is this key's */
  mode_t mode;
  char name[DLK_FILE_NAME];
  size_t len;
  char key[]; /* with the prefix */
};

/* A slot of ours: a lease's (in lease->data) or a watcher's (in its op). */
struct dlk_file_entry {
  struct dlk_map_node node;
  uint64_t instance, token;
  uint32_t slot;
  bool told; /* that somebody asked for the lease */
  struct dlk_lease *lease;
  struct dlk_op *op; /* while it waits */
};

/* Another store, or this one: the pipe that wakes it. */
struct dlk_file_peer {
  struct dlk_map_node node;
  struct dlk_list link;     /* in idle, while nobody watches */
  struct dlk_list watchers; /* struct dlk_file_watch */
  struct dlk_file_store *store;
  uint64_t instance;
  int fd;
  uv_poll_t poll;
};

/* An operation of ours that must be told when the peer dies. */
struct dlk_file_watch {
  struct dlk_list of_peer, of_op;
  struct dlk_file_peer *peer;
  struct dlk_op *op;
};

enum dlk_file_phase {
  DLK_FILE_START, /* nothing of it is in the table */
  DLK_FILE_QUEUED,
  DLK_FILE_LEAVING /* it is to be taken out of the table */
};

struct dlk_file_op {
  struct dlk_timer timer;
  struct dlk_list link; /* in store->ops */
  struct dlk_file_store *store;
  struct dlk_op *op;
  enum dlk_file_phase phase;
  unsigned tries;
  struct dlk_list watches;
  struct dlk_file_entry watcher; /* of a CHANGE */
};

/* fork.c: descriptors that must not live on in a forked child. */
int dlk_file_fd_open(int dir, const char *name, int flags,
                     mode_t mode); /* fd, -errno */
void dlk_file_fd_close(int fd);    /* -1 is fine */

/* dir.c */
enum dlk_code dlk_file_dir_open(struct dlk_file_store *s,
                                struct dlk_error *err);
/* Opens a plain file of ours, for reading and writing; mode: that of a file to
 * be made if there is none, 0: none is made. fd, or -errno; EPROTO: what is
 * there is no such file. It was not opened. */
int dlk_file_own_open(struct dlk_file_store *s, const char *name, mode_t mode);
/* Of a file without our magic: whether it was ours nevertheless. */
bool dlk_file_marked(mode_t mode);
/* Whether the store's path leads to another directory than ours, or none. */
bool dlk_file_dir_lost(const struct dlk_file_store *s);
/* What is in the directory; NULL and errno. It has a descriptor of its own,
 * not registered for fork, because it keeps nothing alive. */
DIR *dlk_file_dir_list(const struct dlk_file_store *s);
/* The short mutex of a file: tried for some microseconds. */
int dlk_file_lock(int fd);
int dlk_file_try_lock(int fd);
void dlk_file_unlock(int fd);
/* Opens the store's own file if need be, again if it was deleted. EBADMSG:
 * what is there is none. */
int dlk_file_meta_open(struct dlk_file_store *s);
/* No fence up to this one may be given for a new file. */
int dlk_file_fence_floor(struct dlk_file_store *s, int64_t *floor);
/* No smaller one was ever given out, if the clock did not step back. */
int64_t dlk_file_fence_seed(void);
/* With the meta mutex: raises the floor. */
int dlk_file_fence_keep(struct dlk_file_store *s, int64_t fence);
/* Before a lease of that ttl is granted: "~store" knows the longest. */
int dlk_file_ttl_keep(struct dlk_file_store *s, int64_t ttl);
int dlk_file_ttl_longest(struct dlk_file_store *s, int64_t *ttl);
/* With the meta mutex: whether it is our turn to sweep, and from where. */
bool dlk_file_sweep_due(struct dlk_file_store *s, int64_t *from);
/* With the meta mutex: where the next one goes on; 0: all is done. */
void dlk_file_sweep_keep(struct dlk_file_store *s, int64_t at);
/* Forgets all descriptors: the directory was deleted. */
void dlk_file_disconnect(struct dlk_file_store *s);

/* key.c */
/* Takes the key's mutex and loads its table into s->table. ENOENT: there is
 * no file (create false). EEXIST: it is another key's. EPROTO: it is not one
 * of ours. */
int dlk_file_key_enter(struct dlk_file_store *s, const char *key, size_t len,
                       bool create, struct dlk_file_key **out);
/* Commits and lets the mutex go. */
int dlk_file_key_leave(struct dlk_file_store *s, struct dlk_file_key *k);
/* Whether the loaded table was left from before a restart of the machine. May
 * set the table's error. */
bool dlk_file_key_remnant(struct dlk_file_store *s);
/* For an answer of key_enter: whether no entry of ours can stand there, since
 * the file is gone, or is none of ours any more. */
bool dlk_file_key_gone(int error);
/* The name of a key's file; false: the key is too long with its prefix. */
bool dlk_file_key_name(const struct dlk_file_store *s, const char *key,
                       size_t len, char out[DLK_FILE_NAME]);
/* Opens a key's file: fd, or -errno. */
int dlk_file_key_open(struct dlk_file_store *s, const char *name, bool create);
/* Our slot as it is now, without the mutex. ENOENT: not ours any more;
 * EAGAIN: could not be told. */
int dlk_file_key_peek(struct dlk_file_store *s, const char *key, size_t len,
                      const struct dlk_file_entry *e,
                      struct dlk_file_slot *out);
/* Closes the file, and deletes it if nothing is in it. */
void dlk_file_key_retire(struct dlk_file_store *s, struct dlk_file_key *k);
/* Deletes a file of the directory if it is a key's and nothing is in it. */
void dlk_file_key_sweep(struct dlk_file_store *s, const char *name);

/* damage.c */
/* In a table that does not say who is in it: a hold of nobody (in memory), if
 * somebody who lives may be. */
int dlk_file_guard_living(struct dlk_file_store *s, const char *key,
                          size_t len);
void dlk_file_look_all(struct dlk_file_store *s);

/* sweep.c */
void dlk_file_sweep_start(struct dlk_file_store *s, int64_t from);
void dlk_file_sweep_stop(struct dlk_file_store *s);

/* peer.c */
/* Makes this store's pipe; wants the meta mutex. */
int dlk_file_wake_open(struct dlk_file_store *s);
/* Its name does not lead to it any more: it was deleted, or the directory was
 * or has another name. */
bool dlk_file_wake_lost(const struct dlk_file_store *s);
void dlk_file_wake_close(struct dlk_file_store *s);
/* Whether the store of that instance lives; true when it cannot be told. */
bool dlk_file_peer_alive(struct dlk_file_store *s, uint64_t instance);
/* Tells it to look at its entry; false when it is dead. */
bool dlk_file_peer_wake(struct dlk_file_store *s, uint64_t instance,
                        uint64_t token);
/* Steps op when the peer dies. ESRCH: it is dead. */
int dlk_file_peer_watch(struct dlk_file_op *f, uint64_t instance);
bool dlk_file_peer_watched(const struct dlk_file_op *f, uint64_t instance);
void dlk_file_peer_unwatch(struct dlk_file_op *f);
void dlk_file_peers_close(struct dlk_file_store *s);
/* Deletes the pipe of a dead store, if that is what has this name. */
void dlk_file_peer_bury(struct dlk_file_store *s, const char *name);
/* "~w" and the instance in hex. */
void dlk_file_wake_name(char out[32], uint64_t instance);
/* False: this is no such name. */
bool dlk_file_wake_instance(const char *name, uint64_t *instance);

/* queue.c: all with the key's mutex, on s->table. */
bool dlk_file_fits(struct dlk_file_table *t, struct dlk_want want);
/* Whether the waiter `before` it (0: the last holder), if it is alive, shares
 * under another limit. */
bool dlk_file_other_limit(struct dlk_file_store *s, struct dlk_want want,
                          uint32_t before);
bool dlk_file_ours(const struct dlk_file_entry *e,
                   const struct dlk_file_slot *slot);
/* The same, looked up in the table. */
bool dlk_file_stands(struct dlk_file_store *s, const struct dlk_file_entry *e);
/* A new slot for the lease (or for a watcher, lease NULL) in the list. */
int dlk_file_join(struct dlk_file_store *s, struct dlk_file_entry *e,
                  const struct dlk_lease *lease, enum dlk_file_list list);
/* Drops holders that are dead; then grants. */
void dlk_file_settle(struct dlk_file_store *s);
/* Ends a hold, or shortens it to its min_hold; then grants. */
void dlk_file_let_go(struct dlk_file_store *s, uint32_t index);
/* Takes a waiter or watcher out; then grants. */
void dlk_file_withdraw(struct dlk_file_store *s, uint32_t index);
void dlk_file_grant(struct dlk_file_store *s);
/* Wakes those who wait for a change, if there was one. */
void dlk_file_tell(struct dlk_file_store *s);
/* A dead or expired hold. */
bool dlk_file_vacant(struct dlk_file_store *s, const struct dlk_file_slot *h,
                     int64_t now);

/* wait.c: what a waiter does when it is told to look. Each ends the op, or
 * leaves it waiting. */
void dlk_file_acquire(struct dlk_file_op *f);
void dlk_file_change(struct dlk_file_op *f);
void dlk_file_leave(struct dlk_file_op *f);

/* hold.c */
void dlk_file_release(struct dlk_file_op *f);
void dlk_file_extend(struct dlk_file_op *f);
void dlk_file_renew(void *store, struct dlk_lease *const *leases, size_t count);
/* Somebody wants us to look at the entry of that token. */
void dlk_file_look(struct dlk_file_store *s, uint64_t token);

/* admin.c */
void dlk_file_inspect(struct dlk_file_op *f);
void dlk_file_list(struct dlk_file_op *f);
void dlk_file_break(struct dlk_file_op *f);
void dlk_file_revoke(struct dlk_file_op *f);
void dlk_file_downgrade(struct dlk_file_op *f);

/* file.c */
/* Connects if need be, and enters the op's key. 0; or ENOENT, if there is no
 * file and none was to be made; or ECANCELED, and then the op has ended or
 * will be stepped again. */
int dlk_file_visit(struct dlk_file_op *f, bool create,
                   struct dlk_file_key **out);
/* Connects if need be: 0, or ECANCELED as above. */
int dlk_file_ready(struct dlk_file_op *f);
void dlk_file_step(struct dlk_file_op *f);
/* Steps again soon. */
void dlk_file_retry(struct dlk_file_op *f);
/* Ends it: with a code and a text (err), or well (NULL). */
void dlk_file_end(struct dlk_file_op *f, const struct dlk_error *err);
void dlk_file_end_code(struct dlk_file_op *f, enum dlk_code code);
/* Ends it for an errno; steps it again if it must not end yet. */
void dlk_file_fail(struct dlk_file_op *f, int error);
void dlk_file_forget(struct dlk_file_store *s, struct dlk_file_entry *e);

#endif
