/* The pipes by which stores wake each other and see each other die.
 *
 * Each connected store has one FIFO in the directory, "~w" and its instance
 * number, which it alone opens for reading. That gives everything that is
 * needed, from the kernel and without a helper:
 *  - to wake a waiter, write its token into its store's FIFO: this wakes that
 *    process and no other, whatever the length of the queue;
 *  - a store lives while its FIFO has a reader: opening it for writing fails
 *    with ENXIO after its death, and a writer that polls sees EPOLLERR at the
 *    moment the kernel closes the reader, kill -9 included.
 * (inotify was the other way considered: its instances are limited to 128 per
 * user by default, all watchers of a file wake for each event, and it has no
 * event for a lock that went away.) A FIFO's name is made and opened under the
 * mutex of "~store", and a dead one's name is deleted under it, so a new pipe
 * is not taken for a dead one. A FIFO without name (ENOENT) counts as dead:
 * its store was closed, or the directory was emptied by hand; the store sees
 * that (dlk_file_wake_lost) and starts anew under another instance. It looks
 * for the name by the whole path: a directory that was moved is not the one
 * that others will open.
 *
 * We hold our own FIFO open for reading and writing, so it never reads as
 * ended. Writing to a reader that just died raises SIGPIPE, which is blocked
 * for the call and taken back, so the host's handling of it is not touched. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/file/internal.h"

void dlk_file_wake_name(char out[32], uint64_t instance) {
  snprintf(out, 32, "~w%016llx", (unsigned long long)instance);
}

/* Tokens of ours that someone wants us to look at. Which of them still stand
 * for something shows when they are looked up. */
static void read_tokens(uv_poll_t *poll, int status, int events) {
  struct dlk_file_store *s = poll->data;
  uint64_t token[64];
  (void)status;
  (void)events;
  for (int turn = 0; turn < 4 && !s->stopping && s->wake_poll == poll; turn++) {
    ssize_t n = read(s->wake, token, sizeof token);
    if (n <= 0)
      return;
    for (size_t i = 0; i < (size_t)n / sizeof token[0]; i++)
      dlk_file_look(s, token[i]);
    if ((size_t)n < sizeof token)
      return;
  }
}

static void closed_wake(uv_handle_t *handle) {
  struct dlk_file_store *s = handle->data;
  free(handle);
  s->handles--;
  if (s->stopping && s->handles == 0)
    s->host->stopped(s->host);
}

static int poll_wake(struct dlk_file_store *s, int fd) {
  uv_poll_t *poll = malloc(sizeof *poll);
  if (poll == NULL)
    return ENOMEM;
  int error = uv_poll_init(s->host->loop(s->host), poll, fd);
  if (error != 0) {
    free(poll);
    return -error;
  }
  s->handles++;
  poll->data = s;
  error = uv_poll_start(poll, UV_READABLE, read_tokens);
  if (error != 0) {
    uv_close((uv_handle_t *)poll, closed_wake);
    return -error;
  }
  s->wake_poll = poll;
  return 0;
}

/* What dlk_file_wake_lost goes by. */
static int note_wake(struct dlk_file_store *s, const char *name) {
  struct stat st;
  size_t size = strlen(s->path) + strlen(name) + 2;
  char *path = realloc(s->wake_path, size);
  if (path == NULL)
    return ENOMEM;
  s->wake_path = path;
  snprintf(path, size, "%s/%s", s->path, name);
  if (fstatat(s->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
    return errno;
  s->wake_node = st.st_ino;
  return 0;
}

int dlk_file_wake_open(struct dlk_file_store *s) {
  char name[32];
  uint64_t instance = 0;
  while (instance == 0)
    s->host->random(s->host, &instance, sizeof instance);
  dlk_file_wake_name(name, instance);
  if (mkfifoat(s->dir, name, DLK_FILE_MADE) != 0)
    return errno;
  int fd = dlk_file_fd_open(s->dir, name, O_RDWR | O_NONBLOCK, 0);
  int error = fd < 0 ? -fd : note_wake(s, name);
  if (error == 0)
    error = poll_wake(s, fd);
  if (error != 0) {
    unlinkat(s->dir, name, 0);
    dlk_file_fd_close(fd);
    return error;
  }
  s->wake = fd;
  s->instance = instance;
  s->host->watch(s->host, fd);
  return 0;
}

bool dlk_file_wake_lost(const struct dlk_file_store *s) {
  struct stat st;
  if (s->wake < 0)
    return true;
  if (stat(s->wake_path, &st) == 0)
    return st.st_ino != s->wake_node;
  if (errno == ENOENT || errno == ENOTDIR)
    return true;
  /* We may not follow the path any more (a change of user). */
  return fstat(s->wake, &st) != 0 || st.st_nlink == 0;
}

/* The name goes first: from then on nobody can take us for alive. */
void dlk_file_wake_close(struct dlk_file_store *s) {
  char name[32];
  if (s->wake < 0)
    return;
  s->host->watch(s->host, -1);
  dlk_file_wake_name(name, s->instance);
  if (s->dir >= 0)
    unlinkat(s->dir, name, 0);
  uv_close((uv_handle_t *)s->wake_poll, closed_wake);
  s->wake_poll = NULL;
  dlk_file_fd_close(s->wake);
  s->wake = -1;
  s->instance = 0;
}

static void closed_peer(uv_handle_t *handle) {
  struct dlk_file_peer *p = handle->data;
  struct dlk_file_store *s = p->store;
  free(p);
  s->handles--;
  if (s->stopping && s->handles == 0)
    s->host->stopped(s->host);
}

/* Out of the map at once; its memory goes when libuv has let go of it. */
static void drop(struct dlk_file_peer *p) {
  struct dlk_file_store *s = p->store;
  if (p->fd < 0)
    return;
  dlk_map_remove(&s->peers, &p->node);
  if (!dlk_list_empty(&p->link))
    s->idle_count--;
  dlk_list_remove(&p->link);
  uv_close((uv_handle_t *)&p->poll, closed_peer);
  dlk_file_fd_close(p->fd);
  p->fd = -1;
}

/* Opens a store's pipe: fd, or -errno. ENXIO: nobody reads it. ENOENT: there
 * is none, but perhaps something else under its name. */
static int open_pipe(struct dlk_file_store *s, const char *name,
                     struct stat *st) {
  if (fstatat(s->dir, name, st, AT_SYMLINK_NOFOLLOW) != 0)
    return -errno;
  if (!S_ISFIFO(st->st_mode))
    return -ENOENT;
  return dlk_file_fd_open(s->dir, name, O_WRONLY | O_NONBLOCK, 0);
}

bool dlk_file_wake_instance(const char *name, uint64_t *instance) {
  if (strncmp(name, "~w", 2) != 0 || strlen(name) != 18 ||
      strspn(name + 2, "0123456789abcdef") != 16)
    return false;
  *instance = strtoull(name + 2, NULL, 16);
  return true;
}

void dlk_file_peer_bury(struct dlk_file_store *s, const char *name) {
  struct stat st;
  uint64_t instance;
  if (!dlk_file_wake_instance(name, &instance) || dlk_file_meta_open(s) != 0 ||
      dlk_file_try_lock(s->meta) != 0)
    return;
  int fd = open_pipe(s, name, &st);
  if (fd == -ENXIO && st.st_uid == s->user && (st.st_mode & 077) == 0)
    unlinkat(s->dir, name, 0);
  dlk_file_unlock(s->meta);
  dlk_file_fd_close(fd);
}

/* Those that watched it look for themselves what its death means to them. */
static void died(struct dlk_file_peer *p) {
  char name[32];
  struct dlk_list waiting;
  dlk_list_init(&waiting);
  dlk_file_wake_name(name, p->instance);
  while (!dlk_list_empty(&p->watchers)) {
    struct dlk_list *node = p->watchers.next;
    dlk_list_remove(node);
    dlk_list_append(&waiting, node);
    DLK_CONTAINER(node, struct dlk_file_watch, of_peer)->peer = NULL;
  }
  struct dlk_file_store *s = p->store;
  drop(p);
  dlk_file_peer_bury(s, name);
  while (!dlk_list_empty(&waiting)) {
    struct dlk_file_watch *w =
        DLK_CONTAINER(waiting.next, struct dlk_file_watch, of_peer);
    struct dlk_op *op = w->op;
    dlk_list_remove(&w->of_peer);
    dlk_list_remove(&w->of_op);
    free(w);
    dlk_file_step(op->data);
  }
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  (void)status;
  (void)events;
  died(poll->data);
}

static int add(struct dlk_file_store *s, uint64_t instance,
               struct dlk_file_peer **out) {
  char name[32];
  struct stat st;
  dlk_file_wake_name(name, instance);
  int fd = open_pipe(s, name, &st);
  if (fd == -ENXIO)
    dlk_file_peer_bury(s, name);
  if (fd == -ENXIO || fd == -ENOENT)
    return ESRCH;
  if (fd < 0)
    return -fd;
  struct dlk_file_peer *p = calloc(1, sizeof *p);
  if (p == NULL) {
    dlk_file_fd_close(fd);
    return ENOMEM;
  }
  p->store = s;
  p->fd = fd;
  p->instance = instance;
  dlk_list_init(&p->watchers);
  dlk_list_init(&p->link);
  if (uv_poll_init(s->host->loop(s->host), &p->poll, fd) != 0) {
    dlk_file_fd_close(fd);
    free(p);
    return EIO;
  }
  p->poll.data = p;
  s->handles++;
  if (!dlk_map_put(&s->peers, &p->node, (const char *)&p->instance,
                   sizeof p->instance) ||
      uv_poll_start(&p->poll, UV_DISCONNECT, on_poll) != 0) {
    drop(p);
    return ENOMEM;
  }
  dlk_list_append(&s->idle, &p->link);
  s->idle_count++;
  *out = p;
  return 0;
}

static int get(struct dlk_file_store *s, uint64_t instance,
               struct dlk_file_peer **out) {
  struct dlk_map_node *node =
      dlk_map_get(&s->peers, (const char *)&instance, sizeof instance);
  if (node != NULL) {
    *out = DLK_CONTAINER(node, struct dlk_file_peer, node);
    struct pollfd poll_fd = {.fd = (*out)->fd, .events = POLLOUT};
    if (poll(&poll_fd, 1, 0) > 0 && (poll_fd.revents & POLLERR) != 0)
      return ESRCH; /* on_poll will see to the rest */
    return 0;
  }
  while (s->idle_count >= DLK_FILE_PEERS_MAX)
    drop(DLK_CONTAINER(s->idle.next, struct dlk_file_peer, link));
  return add(s, instance, out);
}

bool dlk_file_peer_alive(struct dlk_file_store *s, uint64_t instance) {
  struct dlk_file_peer *p = NULL;
  if (instance == s->instance && instance != 0)
    return true;
  return instance != 0 && get(s, instance, &p) != ESRCH;
}

/* A full pipe has more news than we could add; EPIPE is death. */
static int send_token(int fd, uint64_t token) {
  sigset_t set, old, pending;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigpending(&pending);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  int error;
  do {
    error = write(fd, &token, sizeof token) < 0 ? errno : 0;
  } while (error == EINTR);
  if (error == EPIPE && !sigismember(&pending, SIGPIPE)) {
    struct timespec none = {0, 0};
    sigtimedwait(&set, NULL, &none);
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return error;
}

bool dlk_file_peer_wake(struct dlk_file_store *s, uint64_t instance,
                        uint64_t token) {
  struct dlk_file_peer *p = NULL;
  if (instance == 0)
    return false;
  if (instance == s->instance) {
    send_token(s->wake, token);
    return true;
  }
  int error = get(s, instance, &p);
  if (p != NULL && error == 0)
    error = send_token(p->fd, token);
  return error != ESRCH && error != EPIPE;
}

bool dlk_file_peer_watched(const struct dlk_file_op *f, uint64_t instance) {
  for (const struct dlk_list *n = f->watches.next; n != &f->watches;
       n = n->next) {
    const struct dlk_file_watch *w =
        DLK_CONTAINER(n, struct dlk_file_watch, of_op);
    if (w->peer != NULL && w->peer->instance == instance)
      return true;
  }
  return false;
}

/* Our own store cannot die without its operations. */
int dlk_file_peer_watch(struct dlk_file_op *f, uint64_t instance) {
  struct dlk_file_store *s = f->store;
  struct dlk_file_peer *p = NULL;
  if (instance == s->instance || dlk_file_peer_watched(f, instance))
    return 0;
  int error = get(s, instance, &p);
  if (error != 0 || p == NULL)
    return error;
  struct dlk_file_watch *w = malloc(sizeof *w);
  if (w == NULL)
    return ENOMEM;
  if (!dlk_list_empty(&p->link)) {
    dlk_list_remove(&p->link);
    s->idle_count--;
  }
  w->peer = p;
  w->op = f->op;
  dlk_list_init(&w->of_op);
  dlk_list_init(&w->of_peer);
  dlk_list_append(&p->watchers, &w->of_peer);
  dlk_list_append(&f->watches, &w->of_op);
  return 0;
}

void dlk_file_peer_unwatch(struct dlk_file_op *f) {
  struct dlk_file_store *s = f->store;
  while (!dlk_list_empty(&f->watches)) {
    struct dlk_file_watch *w =
        DLK_CONTAINER(f->watches.next, struct dlk_file_watch, of_op);
    struct dlk_file_peer *p = w->peer;
    dlk_list_remove(&w->of_op);
    dlk_list_remove(&w->of_peer);
    free(w);
    /* NULL: it has died just now, and died() is at work. */
    if (p != NULL && dlk_list_empty(&p->watchers) && dlk_list_empty(&p->link)) {
      dlk_list_append(&s->idle, &p->link);
      s->idle_count++;
    }
  }
}

void dlk_file_peers_close(struct dlk_file_store *s) {
  while (!dlk_list_empty(&s->idle))
    drop(DLK_CONTAINER(s->idle.next, struct dlk_file_peer, link));
}
