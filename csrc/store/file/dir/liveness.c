/* The pipes by which stores wake each other and see each other die.
 *
 * L1  Each connected store is the only reader of one FIFO, "~w" and its
 *     instance. It has it open for writing too, so the FIFO never reads as
 *     ended.
 * L2  A token in the FIFO wakes that entry of its store.
 * L3  A store lives while its FIFO has a reader. After its death an open for
 *     writing fails with ENXIO, and a writer that polls sees EPOLLERR.
 * L4  A FIFO's name is made, opened and, of a dead store, deleted under the
 *     mutex of "~store". So no new pipe is taken for a dead one.
 * L5  A FIFO without a name counts as dead. Its store sees that
 *     (dlk_file_wake_lost) and starts anew as another instance. */
#include "store/file/dir/liveness.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/quiet.h"
#include "core/trace.h"
#include "store/file/dir/meta.h"
#include "store/file/dir/process.h"

#define PEERS_MAX 64 /* other stores' pipes kept open unwatched */

/* Another store's pipe. */
struct peer {
  uv_poll_t poll; /* first: `closed` frees the peer by it */
  struct dlk_map_node node;
  struct dlk_list link;     /* in idle, without watchers */
  struct dlk_list watchers; /* struct watch */
  uint64_t instance;
  int fd;
};

struct watch {
  struct dlk_list of_peer, of_watcher;
  struct peer *peer;
  struct dlk_file_watcher *watcher;
};

static void wake_name(char out[32], uint64_t instance) {
  snprintf(out, 32, "~w%016llx", (unsigned long long)instance);
}

/* A token may be out of date. */
static void read_tokens(uv_poll_t *poll, int status, int events) {
  struct dlk_file_dir *d = poll->data;
  uint64_t token[64];
  (void)status;
  (void)events;
  for (int turn = 0; turn < 4 && !d->stopping && d->wake_poll == poll; turn++) {
    ssize_t n = read(d->wake, token, sizeof token);
    if (n <= 0)
      return;
    for (size_t i = 0; i < (size_t)n / sizeof token[0]; i++)
      d->user->look(d, token[i]);
    if ((size_t)n < sizeof token)
      return;
  }
}

static void closed(uv_handle_t *handle) {
  struct dlk_file_dir *d = handle->data;
  free(handle);
  d->handles--;
  if (d->stopping && d->handles == 0)
    d->host->stopped(d->host);
}

int dlk_file_wake_open(struct dlk_file_dir *d) {
  char name[32];
  uint64_t instance = 0;
  int error = dlk_file_boot_keep(d, dlk_file_peers_alive);
  if (error != 0)
    return error;
  while (instance == 0)
    d->host->random(d->host, &instance, sizeof instance);
  wake_name(name, instance);
  if (mkfifoat(d->fd, name, DLK_FILE_MADE) != 0)
    return errno;
  fchmodat(d->fd, name, DLK_FILE_MADE, 0); /* the umask may cut it */
  int fd = dlk_file_fd_open(d->fd, name, O_RDWR | O_NONBLOCK, 0);
  uv_poll_t *poll = malloc(sizeof *poll);
  if (fd < 0 || poll == NULL)
    error = fd < 0 ? -fd : ENOMEM;
  else
    error = -uv_poll_init(d->host->loop(d->host), poll, fd);
  if (error == 0) {
    d->handles++;
    poll->data = d;
    error = -uv_poll_start(poll, UV_READABLE, read_tokens);
    if (error != 0)
      uv_close((uv_handle_t *)poll, closed);
  } else {
    free(poll);
  }
  if (error != 0) {
    unlinkat(d->fd, name, 0);
    dlk_file_fd_close(fd);
    return error;
  }
  d->wake_poll = poll;
  d->wake = fd;
  d->instance = instance;
  d->host->watch(d->host, fd);
  return 0;
}

bool dlk_file_wake_lost(const struct dlk_file_dir *d) {
  char name[32];
  wake_name(name, d->instance);
  return d->wake < 0 || !dlk_file_named(d, name, d->wake, NULL);
}

/* The name goes first, so nobody takes us for alive. */
void dlk_file_wake_close(struct dlk_file_dir *d) {
  char name[32];
  if (d->wake < 0)
    return;
  d->host->watch(d->host, -1);
  wake_name(name, d->instance);
  if (d->fd >= 0)
    unlinkat(d->fd, name, 0);
  uv_close((uv_handle_t *)d->wake_poll, closed);
  d->wake_poll = NULL;
  dlk_file_fd_close(d->wake);
  d->wake = -1;
  d->instance = 0;
}

/* libuv frees it later. */
static void drop(struct dlk_file_dir *d, struct peer *p) {
  if (p->fd < 0)
    return;
  dlk_map_remove(&d->peers, &p->node);
  if (!dlk_list_empty(&p->link))
    d->idle_count--;
  dlk_list_remove(&p->link);
  uv_close((uv_handle_t *)&p->poll, closed);
  dlk_file_fd_close(p->fd);
  p->fd = -1;
}

/* fd, or -errno; ENXIO: nobody reads it; ENOENT: there is no FIFO. */
static int open_pipe(struct dlk_file_dir *d, const char *name,
                     struct stat *st) {
  if (fstatat(d->fd, name, st, AT_SYMLINK_NOFOLLOW) != 0)
    return -errno;
  if (!S_ISFIFO(st->st_mode))
    return -ENOENT;
  return dlk_file_fd_open(d->fd, name, O_WRONLY | O_NONBLOCK, 0);
}

/* False: the name is no pipe's. */
static bool wake_instance(const char *name, uint64_t *instance) {
  if (strncmp(name, "~w", 2) != 0 || strlen(name) != 18 ||
      strspn(name + 2, "0123456789abcdef") != 16)
    return false;
  *instance = strtoull(name + 2, NULL, 16);
  return true;
}

void dlk_file_peer_bury(struct dlk_file_dir *d, const char *name) {
  struct stat st;
  uint64_t instance;
  if (!wake_instance(name, &instance) || dlk_file_meta_try_lock(d) != 0)
    return;
  int fd = open_pipe(d, name, &st);
  if (fd == -ENXIO && st.st_uid == d->owner && (st.st_mode & 077) == 0)
    unlinkat(d->fd, name, 0);
  dlk_file_unlock(d->meta);
  dlk_file_fd_close(fd);
}

/* Each watcher looks for itself what that means to it. */
static void died(uv_poll_t *poll, int status, int events) {
  struct peer *p = DLK_CONTAINER(poll, struct peer, poll);
  struct dlk_file_dir *d = poll->data;
  char name[32];
  struct dlk_list waiting;
  (void)status;
  (void)events;
  dlk_list_init(&waiting);
  wake_name(name, p->instance);
  while (!dlk_list_empty(&p->watchers)) {
    struct dlk_list *node = p->watchers.next;
    dlk_list_remove(node);
    dlk_list_append(&waiting, node);
    DLK_CONTAINER(node, struct watch, of_peer)->peer = NULL;
  }
  drop(d, p);
  dlk_file_peer_bury(d, name);
  while (!dlk_list_empty(&waiting)) {
    struct watch *w = DLK_CONTAINER(waiting.next, struct watch, of_peer);
    struct dlk_file_watcher *watcher = w->watcher;
    dlk_list_remove(&w->of_peer);
    dlk_list_remove(&w->of_watcher);
    free(w);
    watcher->died(watcher);
  }
}

static int add(struct dlk_file_dir *d, uint64_t instance, struct peer **out) {
  char name[32];
  struct stat st;
  wake_name(name, instance);
  int fd = open_pipe(d, name, &st);
  if (fd == -ENXIO)
    dlk_file_peer_bury(d, name);
  if (fd == -ENXIO || fd == -ENOENT)
    return ESRCH;
  if (fd < 0)
    return -fd;
  struct peer *p = calloc(1, sizeof *p);
  if (p == NULL) {
    dlk_file_fd_close(fd);
    return ENOMEM;
  }
  p->fd = fd;
  p->instance = instance;
  dlk_list_init(&p->watchers);
  dlk_list_init(&p->link);
  if (uv_poll_init(d->host->loop(d->host), &p->poll, fd) != 0) {
    dlk_file_fd_close(fd);
    free(p);
    return EIO;
  }
  p->poll.data = d;
  d->handles++;
  if (!dlk_map_put(&d->peers, &p->node, (const char *)&p->instance,
                   sizeof p->instance) ||
      uv_poll_start(&p->poll, UV_DISCONNECT, died) != 0) {
    drop(d, p);
    return ENOMEM;
  }
  dlk_list_append(&d->idle, &p->link);
  d->idle_count++;
  *out = p;
  return 0;
}

static int get(struct dlk_file_dir *d, uint64_t instance, struct peer **out) {
  struct dlk_map_node *node =
      dlk_map_get(&d->peers, (const char *)&instance, sizeof instance);
  struct peer *p = node ? DLK_CONTAINER(node, struct peer, node) : NULL;
  if (p != NULL) {
    *out = p;
    struct pollfd ask = {.fd = p->fd, .events = POLLOUT};
    bool dead = poll(&ask, 1, 0) > 0 && (ask.revents & POLLERR) != 0;
    return dead ? ESRCH : 0; /* died() does the rest */
  }
  while (d->idle_count >= PEERS_MAX)
    drop(d, DLK_CONTAINER(d->idle.next, struct peer, link));
  return add(d, instance, out);
}

bool dlk_file_peer_alive(struct dlk_file_dir *d, uint64_t instance) {
  struct peer *p = NULL;
  if (instance == d->instance && instance != 0)
    return true;
  return instance != 0 && get(d, instance, &p) != ESRCH;
}

/* A full pipe wakes its store anyway; EPIPE is death. */
static int send_token(int fd, uint64_t token) {
  int error;
  do {
    error = dlk_quiet_write(fd, &token, sizeof token) < 0 ? errno : 0;
  } while (error == EINTR);
  return error;
}

bool dlk_file_peer_wake(struct dlk_file_dir *d, uint64_t instance,
                        uint64_t token) {
  struct peer *p = NULL;
  if (instance == 0)
    return false;
  DLK_TRACE(d->host->now(d->host), "file", "wake", NULL, 0, "token ..%04x",
            (unsigned)(token & 0xffff));
  if (instance == d->instance) {
    send_token(d->wake, token);
    return true;
  }
  int error = get(d, instance, &p);
  if (p != NULL && error == 0)
    error = send_token(p->fd, token);
  return error != ESRCH && error != EPIPE;
}

bool dlk_file_peers_alive(struct dlk_file_dir *d) {
  DIR *dir = dlk_file_dir_list(d);
  const struct dirent *found;
  struct stat st;
  uint64_t instance;
  bool any = dir == NULL;
  while (!any && (found = readdir(dir)) != NULL)
    if (wake_instance(found->d_name, &instance) && instance != d->instance) {
      int fd = open_pipe(d, found->d_name, &st);
      any = fd != -ENXIO && fd != -ENOENT;
      dlk_file_fd_close(fd);
    }
  if (dir != NULL)
    closedir(dir);
  return any;
}

void dlk_file_peers_wake(struct dlk_file_dir *d) {
  DIR *dir = dlk_file_dir_list(d);
  const struct dirent *found;
  uint64_t instance;
  while (dir != NULL && (found = readdir(dir)) != NULL)
    if (wake_instance(found->d_name, &instance))
      dlk_file_peer_wake(d, instance, DLK_FILE_ALL);
  if (dir != NULL)
    closedir(dir);
}

static bool watched(const struct dlk_file_watcher *watcher, uint64_t instance) {
  for (const struct dlk_list *n = watcher->watches.next; n != &watcher->watches;
       n = n->next) {
    const struct watch *w = DLK_CONTAINER(n, struct watch, of_watcher);
    if (w->peer != NULL && w->peer->instance == instance)
      return true;
  }
  return false;
}

int dlk_file_peer_watch(struct dlk_file_dir *d,
                        struct dlk_file_watcher *watcher, uint64_t instance) {
  struct peer *p = NULL;
  if (instance == d->instance || watched(watcher, instance))
    return 0;
  int error = get(d, instance, &p);
  if (error != 0 || p == NULL)
    return error;
  struct watch *w = malloc(sizeof *w);
  if (w == NULL)
    return ENOMEM;
  if (!dlk_list_empty(&p->link)) {
    dlk_list_remove(&p->link);
    d->idle_count--;
  }
  w->peer = p;
  w->watcher = watcher;
  dlk_list_init(&w->of_watcher);
  dlk_list_init(&w->of_peer);
  dlk_list_append(&p->watchers, &w->of_peer);
  dlk_list_append(&watcher->watches, &w->of_watcher);
  return 0;
}

void dlk_file_peer_unwatch(struct dlk_file_dir *d,
                           struct dlk_file_watcher *watcher) {
  while (!dlk_list_empty(&watcher->watches)) {
    struct watch *w =
        DLK_CONTAINER(watcher->watches.next, struct watch, of_watcher);
    struct peer *p = w->peer;
    dlk_list_remove(&w->of_watcher);
    dlk_list_remove(&w->of_peer);
    free(w);
    /* NULL: died() is at work. */
    if (p != NULL && dlk_list_empty(&p->watchers) && dlk_list_empty(&p->link)) {
      dlk_list_append(&d->idle, &p->link);
      d->idle_count++;
    }
  }
}

void dlk_file_peers_close(struct dlk_file_dir *d) {
  while (!dlk_list_empty(&d->idle))
    drop(d, DLK_CONTAINER(d->idle.next, struct peer, link));
}
