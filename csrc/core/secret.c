/* Only a plain file is read, so this waits for the disk at most. A file that is
 * empty, cut short or unreadable (a worker of nginx gave up root's rights)
 * leaves the last text in place. */
#include "core/secret.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/password.h"

/* How long a question stays open. */
#define ANSWERED_BY (60 * DLK_SEC)

struct dlk_secret {
  pthread_mutex_t lock;
  char *text;
  char *path;
  unsigned turn;
  bool asks;
  int64_t asked;                               /* if ASKED */
  _Atomic enum { QUIET, WANTED, ASKED } stage; /* written under lock */
};

struct dlk_secret *dlk_secret_new(const char *text, const char *path,
                                  bool asks) {
  struct dlk_secret *s = calloc(1, sizeof *s);
  if (!s)
    return NULL;
  s->text = text ? strdup(text) : NULL;
  s->path = path ? strdup(path) : NULL;
  s->asks = asks;
  if ((text && !s->text) || (path && !s->path) ||
      pthread_mutex_init(&s->lock, NULL) != 0) {
    dlk_password_free(s->text);
    free(s->path);
    free(s);
    return NULL;
  }
  return s;
}

void dlk_secret_free(struct dlk_secret *s) {
  if (!s)
    return;
  pthread_mutex_destroy(&s->lock);
  dlk_password_free(s->text);
  free(s->path);
  free(s);
}

/* At most DLK_PASSWORD_READ bytes. */
static size_t read_file(const char *path, char *to) {
  size_t len = 0;
  ssize_t n = 1;
  struct stat st;
  int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  if (fd < 0)
    return 0;
  if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
    while (n > 0 && len < DLK_PASSWORD_READ) {
      n = read(fd, to + len, DLK_PASSWORD_READ - len);
      len += n > 0 ? (size_t)n : 0;
    }
  close(fd);
  return n < 0 ? 0 : len;
}

/* [lock] False: out of memory. */
static bool put(struct dlk_secret *s, const char *text) {
  char *copy = strdup(text);
  if (!copy)
    return false;
  dlk_password_free(s->text);
  s->text = copy;
  s->turn++;
  return true;
}

/* [lock] */
static void look_at_file(struct dlk_secret *s) {
  char text[DLK_PASSWORD_READ + 1];
  size_t len = read_file(s->path, text), line;
  const char *problem = dlk_password_line(text, len, &line);
  text[line] = '\0';
  if (!problem && (!s->text || strcmp(s->text, text) != 0))
    (void)put(s, text);
  explicit_bzero(text, sizeof text);
}

bool dlk_secret_read(struct dlk_secret *s, struct dlk_buf *out,
                     unsigned *turn) {
  pthread_mutex_lock(&s->lock);
  if (s->path)
    look_at_file(s);
  if (s->text)
    dlk_buf_add(out, s->text, strlen(s->text) + 1);
  bool there = s->text && !out->failed;
  *turn = s->turn;
  pthread_mutex_unlock(&s->lock);
  return there;
}

bool dlk_secret_refused(struct dlk_secret *s, unsigned turn) {
  pthread_mutex_lock(&s->lock);
  bool quiet = s->stage == QUIET ||
               (s->stage == ASKED && dlk_clock_now() - s->asked > ANSWERED_BY);
  bool ask = s->asks && quiet && turn == s->turn;
  if (ask)
    s->stage = WANTED;
  pthread_mutex_unlock(&s->lock);
  return ask;
}

bool dlk_secret_is_wanted(const struct dlk_secret *s) {
  return atomic_load_explicit(&s->stage, memory_order_relaxed) == WANTED;
}

bool dlk_secret_ask(struct dlk_secret *s) {
  pthread_mutex_lock(&s->lock);
  bool ask = s->stage == WANTED;
  if (ask) {
    s->stage = ASKED;
    s->asked = dlk_clock_now();
  }
  pthread_mutex_unlock(&s->lock);
  return ask;
}

bool dlk_secret_set(struct dlk_secret *s, const char *text) {
  pthread_mutex_lock(&s->lock);
  bool ok = !text || put(s, text);
  s->stage = QUIET;
  pthread_mutex_unlock(&s->lock);
  return ok;
}
