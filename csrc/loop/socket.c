/* The line: a Unix socket of this process with itself, because nginx can wait
 * for a socket that its Lua code connected, and for no other descriptor.
 *
 * dlk_line_serve listens in a new directory that only this user can enter;
 * once the other end has connected, dlk_line_accept takes it, sees that it is
 * this very process (SO_PEERCRED), and removes socket and directory. From then
 * on a byte goes out whenever the bell rings, and one twice a second: a read
 * that times out would write a line into nginx's error log, and by the looks
 * that a beat causes the reader is known to be there (host/nginx/pump.lua).
 *
 * Bytes say nothing but "look", so a full buffer loses nothing. The descriptor
 * changes under line_lock, which is held only for one system call that never
 * waits: the driver writes, Lua's thread opens and closes. */
#include "engine/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BEAT (500 * DLK_MS)

/* ---- the driver's side ---- */

/* False when nobody listens (any more). */
static bool send_byte(struct dlk_engine *e) {
  pthread_mutex_lock(&e->line_lock);
  int fd = e->line_fd;
  bool open = fd >= 0;
  if (open && send(fd, ".", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 &&
      errno != EAGAIN && errno != EINTR) {
    close(fd);
    e->line_fd = -1;
    atomic_store(&e->line_open, false);
    open = false;
  }
  pthread_mutex_unlock(&e->line_lock);
  return open;
}

void dlk_line_ring(struct dlk_engine *e) {
  if (atomic_load_explicit(&e->line_open, memory_order_relaxed))
    send_byte(e);
}

static void beat(struct dlk_timer *timer, int64_t now) {
  struct dlk_engine *e = DLK_CONTAINER(timer, struct dlk_engine, beat);
  if (send_byte(e))
    dlk_heap_put(&e->timers, &timer->node, now + BEAT);
}

static void start_beat(struct dlk_post *post) {
  struct dlk_engine *e = DLK_CONTAINER(post, struct dlk_engine, line_post);
  dlk_heap_put(&e->timers, &e->beat.node, dlk_clock_now() + BEAT);
  send_byte(e);
}

void dlk_line_init(struct dlk_engine *e) {
  e->line_fd = e->listen_fd = -1;
  e->beat.fire = beat;
  e->line_post.run = start_beat;
}

/* ---- the listener's side, in Lua's thread ---- */

static void stop_listening(struct dlk_engine *e) {
  if (e->listen_fd < 0)
    return;
  close(e->listen_fd);
  e->listen_fd = -1;
  unlink(e->line_path);
  *strrchr(e->line_path, '/') = '\0';
  rmdir(e->line_path);
  e->line_path[0] = '\0';
}

void dlk_line_hang_up(struct dlk_engine *e) {
  stop_listening(e);
  pthread_mutex_lock(&e->line_lock);
  if (e->line_fd >= 0)
    close(e->line_fd);
  e->line_fd = -1;
  atomic_store(&e->line_open, false);
  pthread_mutex_unlock(&e->line_lock);
}

/* A directory of our own in the first place that lets us make one. */
static bool make_dir(char *path, size_t size) {
  const char *places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    const char *place = places[i];
    if (!place || place[0] != '/' || strlen(place) > 64)
      continue;
    snprintf(path, size, "%s/dlock-XXXXXX", place);
    if (mkdtemp(path))
      return true;
  }
  return false;
}

static bool listen_at(int fd, const char *path) {
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  snprintf(at.sun_path, sizeof at.sun_path, "%s", path);
  return bind(fd, (struct sockaddr *)&at, sizeof at) == 0 && listen(fd, 4) == 0;
}

const char *dlk_line_serve(struct dlk_engine *e, struct dlk_error *err) {
  dlk_line_hang_up(e);
  char dir[96];
  if (!make_dir(dir, sizeof dir)) {
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "no directory for a socket could be made in $TMPDIR, /tmp "
                  "or /dev/shm (%s); let this user write to one of them",
                  strerror(errno));
    return NULL;
  }
  snprintf(e->line_path, sizeof e->line_path, "%s/s", dir);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && listen_at(fd, e->line_path)) {
    e->listen_fd = fd;
    return e->line_path;
  }
  dlk_error_set(err, DLK_UNAVAILABLE, "no socket to be had at '%s': %s",
                e->line_path, strerror(errno));
  if (fd >= 0)
    close(fd);
  unlink(e->line_path);
  rmdir(dir);
  return NULL;
}

static bool is_ourselves(int fd) {
  struct ucred peer;
  socklen_t size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         peer.pid == getpid();
}

/* Whoever else connected (the same user could) is turned away. */
static int accept_ourselves(int listening) {
  for (;;) {
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || is_ourselves(fd))
      return fd;
    close(fd);
  }
}

bool dlk_line_accept(struct dlk_engine *e) {
  int fd = e->listen_fd < 0 ? -1 : accept_ourselves(e->listen_fd);
  stop_listening(e);
  if (fd < 0)
    return false;
  if (atomic_load(&e->closed)) {
    close(fd);
    return false;
  }
  pthread_mutex_lock(&e->line_lock);
  e->line_fd = fd;
  atomic_store(&e->line_open, true);
  pthread_mutex_unlock(&e->line_lock);
  dlk_driver_post(e, &e->line_post, true);
  return true;
}
