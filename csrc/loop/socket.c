/* The self-connected socket: nginx can wait for a socket that its Lua code
 * connected, and for no other descriptor. It listens in a new directory that
 * only this user can enter, until this process connects (SO_PEERCRED). Each
 * wakeup sends a byte. So does a beat: a read that times out would log an error
 * in nginx, and each beat shows that the reader lives (host/nginx/pump.lua). */
#include "loop/socket.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "loop/owner.h"

#define BEAT (500 * DLK_MS)

static void beat(struct dlk_timer *timer, int64_t now) {
  struct dlk_socket *s = DLK_CONTAINER(timer, struct dlk_socket, beat);
  if (dlk_wakeup_beat(&s->loop->wakeup))
    dlk_timers_set(&s->loop->timers, timer, now + BEAT);
}

static void begin_beat(struct dlk_post *post) {
  struct dlk_socket *s = DLK_CONTAINER(post, struct dlk_socket, begin);
  dlk_timers_set(&s->loop->timers, &s->beat, dlk_clock_now() + BEAT);
  dlk_wakeup_beat(&s->loop->wakeup);
}

void dlk_socket_init(struct dlk_socket *s, struct dlk_loop *l) {
  s->loop = l;
  s->listen_fd = -1;
  s->beat.fire = beat;
  s->begin.run = begin_beat;
}

static void stop_listening(struct dlk_socket *s) {
  if (s->listen_fd < 0)
    return;
  close(s->listen_fd);
  s->listen_fd = -1;
  unlink(s->path);
  *strrchr(s->path, '/') = '\0';
  rmdir(s->path);
  s->path[0] = '\0';
}

void dlk_socket_hang_up(struct dlk_socket *s) {
  stop_listening(s);
  dlk_wakeup_set_socket(&s->loop->wakeup, -1);
}

/* In the first place that lets us make a directory. */
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

const char *dlk_socket_serve(struct dlk_socket *s, struct dlk_error *err) {
  dlk_socket_hang_up(s);
  char dir[96];
  if (!make_dir(dir, sizeof dir)) {
    dlk_error_set(err, DLK_UNAVAILABLE,
                  "no directory for a socket could be made in $TMPDIR, /tmp, "
                  "/dev/shm or /var/tmp (%s); let this user write to one of "
                  "them",
                  strerror(errno));
    return NULL;
  }
  snprintf(s->path, sizeof s->path, "%s/s", dir);
  struct sockaddr_un at = {.sun_family = AF_UNIX};
  memcpy(at.sun_path, s->path, sizeof at.sun_path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd >= 0 && bind(fd, (struct sockaddr *)&at, sizeof at) == 0 &&
      listen(fd, 4) == 0) {
    s->listen_fd = fd;
    return s->path;
  }
  dlk_error_set(err, DLK_UNAVAILABLE, "no socket to be had at '%s': %s",
                s->path, strerror(errno));
  if (fd >= 0)
    close(fd);
  unlink(s->path);
  rmdir(dir);
  return NULL;
}

static int accept_ourselves(int listening) {
  for (;;) {
    struct ucred peer;
    socklen_t size = sizeof peer;
    int fd = accept4(listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0 || (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
                   peer.pid == getpid()))
      return fd;
    close(fd);
  }
}

bool dlk_socket_accept(struct dlk_socket *s) {
  struct dlk_wakeup *w = &s->loop->wakeup;
  int fd = s->listen_fd < 0 ? -1 : accept_ourselves(s->listen_fd);
  stop_listening(s);
  if (fd < 0)
    return false;
  if (w->ended) {
    close(fd);
    return false;
  }
  dlk_wakeup_set_socket(w, fd);
  dlk_owner_post(s->loop, &s->begin, true);
  return true;
}
