/* TLS by dlock/tls.so (tls/tls.h), which never sees a descriptor: all reads and
 * writes are here.
 *
 * Unlike a plain socket
 * - bytes taken may not be sent yet. They are, before later ones; more than
 *   DLK_TLS_AHEAD are not taken;
 * - reading may wait for a write (`stuck`: an answer to a KeyUpdate), and a
 *   write for bytes (`write_stuck`: half a handshake message). Then `waits` has
 *   the caller poll for room, and so go on.
 *
 * A recv ends with the caller's memory full, with nothing left, or `stuck`: so
 * no poll misses bytes within OpenSSL. A peer that sends only handshake
 * messages gets PULLS reads. */
#include "net/secure.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "core/trace.h"
#include "net/tls.h"
#include "tls/tls.h"

#define CHUNK 16384
#define PULLS 4

struct dlk_net_secure {
  const struct dlk_tls_library *lib;
  struct dlk_tls_channel *channel;
  bool greeted;
  bool stuck; /* reading waits for a write */
  bool write_stuck;
  bool fresh; /* bytes came for write_stuck */
  /* Processor time of the handshake's steps, ns, for the trace. */
  int64_t steps, longest;
};

static int64_t processor_time(void) {
  struct timespec t = {0};
  if (DLK_TRACING)
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void note_step(struct dlk_net_secure *x, int64_t before) {
  int64_t took = processor_time() - before;
  x->steps += took;
  if (took > x->longest)
    x->longest = took;
}

struct dlk_net_secure *dlk_net_secure_new(const struct dlk_net_address *address,
                                          struct dlk_tls_fault *fault) {
  struct dlk_net_secure *x = calloc(1, sizeof *x);
  if (!x) {
    *fault = (struct dlk_tls_fault){DLK_UNAVAILABLE, "out of memory"};
    return NULL;
  }
  int64_t before = processor_time();
  x->lib = address->tls->lib;
  x->channel =
      x->lib->open(address->tls->client, address->host, address->port, fault);
  note_step(x, before);
  if (x->channel)
    return x;
  free(x);
  return NULL;
}

void dlk_net_secure_close(struct dlk_net_secure *x, int fd) {
  if (!x)
    return;
  if (x->greeted && fd >= 0) {
    x->lib->finish(x->channel);
    (void)dlk_net_secure_push(x, fd);
  }
  x->lib->channel_free(x->channel);
  free(x);
}

static size_t unsent(const struct dlk_net_secure *x) {
  size_t n;
  (void)x->lib->out(x->channel, &n);
  return n;
}

bool dlk_net_secure_push(struct dlk_net_secure *x, int fd) {
  size_t left;
  const char *p;
  while ((p = x->lib->out(x->channel, &left)) != NULL) {
    ssize_t n = send(fd, p, left, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return errno == EAGAIN || errno == EWOULDBLOCK;
    x->lib->sent(x->channel, (size_t)n);
  }
  return true;
}

/* Serves a step: 1 go on, 0 the end, -1 and errno. */
static int provide(struct dlk_net_secure *x, int fd, enum dlk_tls_step step,
                   char raw[CHUNK], bool await) {
  if (step == DLK_TLS_WANTS_INPUT) {
    ssize_t n;
    do {
      n = recv(fd, raw, CHUNK, await ? 0 : MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR && !await);
    if (n > 0) {
      x->lib->feed(x->channel, raw, (size_t)n); /* raw stays until `keep` */
      x->fresh = true;
    }
    return n > 0 ? 1 : (int)n;
  }
  if (step == DLK_TLS_WANTS_ROOM) {
    if (!dlk_net_secure_push(x, fd))
      return -1;
    if (unsent(x) < DLK_TLS_AHEAD)
      return 1;
    x->stuck = true;
    errno = EAGAIN;
    return -1;
  }
  if (step == DLK_TLS_ENDED)
    return 0;
  errno = EPROTO;
  return -1;
}

enum dlk_net_greeting dlk_net_secure_greet(struct dlk_net_secure *x, int fd,
                                           struct dlk_tls_fault *fault) {
  char raw[CHUNK];
  int rc = 1;
  enum dlk_tls_step step;
  do {
    int64_t before = processor_time();
    step = x->lib->handshake(x->channel);
    note_step(x, before);
    (void)dlk_net_secure_push(x, fd); /* a last word may still be read */
    if (step != DLK_TLS_DONE)
      rc = provide(x, fd, step, raw, false);
  } while (step != DLK_TLS_DONE && rc > 0);
  bool again = rc < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
  x->lib->keep(x->channel);
  if (step == DLK_TLS_DONE) {
    x->greeted = true;
    x->stuck = x->lib->pending(x->channel);
    return DLK_NET_GREETED;
  }
  if (again)
    return DLK_NET_GREETING;
  x->lib->fault(x->channel, fault);
  return DLK_NET_UNGREETED;
}

ssize_t dlk_net_secure_recv(struct dlk_net_secure *x, int fd, void *p, size_t n,
                            bool await) {
  char raw[CHUNK];
  size_t got = 0;
  /* OpenSSL is asked only if there are bytes. */
  int rc = x->stuck || x->lib->pending(x->channel)
               ? 1
               : provide(x, fd, DLK_TLS_WANTS_INPUT, raw, await);
  int pulls = 1;
  x->stuck = false;
  while (got < n && rc > 0) {
    size_t did = 0;
    enum dlk_tls_step step =
        x->lib->read(x->channel, (char *)p + got, n - got, &did);
    got += did;
    if (step == DLK_TLS_DONE) {
      if (!x->lib->pending(x->channel))
        break;
    } else if (step == DLK_TLS_WANTS_INPUT && (got > 0 || pulls++ == PULLS)) {
      errno = EAGAIN;
      rc = -1;
    } else if (got == 0 || step == DLK_TLS_WANTS_ROOM) {
      rc = provide(x, fd, step, raw, false);
    } else {
      break; /* the next call tells it */
    }
  }
  int problem = errno;
  x->lib->keep(x->channel);
  (void)dlk_net_secure_push(x, fd); /* an answer to a KeyUpdate */
  errno = problem;
  return got > 0 ? (ssize_t)got : rc > 0 ? 0 : rc;
}

ssize_t dlk_net_secure_send(struct dlk_net_secure *x, int fd, const void *p,
                            size_t n) {
  size_t done = 0;
  x->write_stuck = x->fresh = false;
  enum dlk_tls_step step = DLK_TLS_DONE;
  while (done < n && step == DLK_TLS_DONE) {
    size_t did = 0;
    step = x->lib->write(x->channel, (const char *)p + done, n - done, &did);
    done += did;
    if (!dlk_net_secure_push(x, fd))
      return -1;
    if (step == DLK_TLS_WANTS_ROOM && unsent(x) < DLK_TLS_AHEAD)
      step = DLK_TLS_DONE;
  }
  x->write_stuck = step == DLK_TLS_WANTS_INPUT;
  if (done > 0)
    return (ssize_t)done;
  errno = step == DLK_TLS_FAILED || step == DLK_TLS_ENDED ? EPROTO : EAGAIN;
  return -1;
}

bool dlk_net_secure_waits(const struct dlk_net_secure *x) {
  return unsent(x) > 0 || x->stuck || (x->write_stuck && x->fresh);
}

bool dlk_net_secure_holds(const struct dlk_net_secure *x) {
  return x->stuck;
}

struct dlk_net_secure_text
dlk_net_secure_shown(const struct dlk_net_secure *x) {
  struct dlk_net_secure_text t;
  snprintf(t.text, sizeof t.text,
           "%.20s, %s, thread %ld, computed for %s ms, at most %s at a time",
           x->lib->protocol(x->channel),
           x->lib->resumed(x->channel) ? "resumed" : "new", (long)gettid(),
           dlk_trace_ms(x->steps).text, dlk_trace_ms(x->longest).text);
  return t;
}

void dlk_net_secure_fault(const struct dlk_net_secure *x,
                          struct dlk_tls_fault *fault) {
  x->lib->fault(x->channel, fault);
}
