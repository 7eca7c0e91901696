/* Makes a loop with its descriptors and its thread, and takes it down. */
#include "loop/life.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "loop/owner.h"
#include "loop/thread.h"

/* A loop's poll, event and signal pipe, the pipe of all loops, and the renewal
 * thread's event. */
#define DESCRIPTORS 7

static void destroy_sync(struct dlk_loop *l) {
  pthread_cond_destroy(&l->freed);
  pthread_mutex_destroy(&l->lock);
}

bool dlk_loop_init(struct dlk_loop *l, const struct dlk_loop_calls *calls) {
  pthread_condattr_t attr;
  l->calls = calls;
  l->tick_at = l->slice_end = DLK_FOREVER;
  atomic_init(&l->watch_fd, -1);
  if (pthread_mutex_init(&l->lock, NULL) != 0)
    return false;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  int rc = pthread_cond_init(&l->freed, &attr);
  pthread_condattr_destroy(&attr);
  if (rc != 0) {
    pthread_mutex_destroy(&l->lock);
    return false;
  }
  if (dlk_sleeper_init(&l->sleeper)) {
    if (dlk_wakeup_init(&l->wakeup))
      return true;
    dlk_sleeper_destroy(&l->sleeper);
  }
  destroy_sync(l);
  return false;
}

void dlk_loop_destroy(struct dlk_loop *l) {
  dlk_wakeup_destroy(&l->wakeup);
  dlk_sleeper_destroy(&l->sleeper);
  destroy_sync(l);
}

/* Only ends the sleep. */
static void on_kick(uv_async_t *kick) {
  (void)kick;
}

/* 0, or an errno: whether a loop's descriptors are to be had, because libuv
 * ends the process when it cannot make the pipe of all loops. A thread that
 * takes the last one meanwhile still causes this. */
static int find_descriptors(void) {
  int fds[DESCRIPTORS], n = 0, error = 0;
  while (n < DESCRIPTORS && error == 0) {
    fds[n] = eventfd(0, EFD_CLOEXEC);
    if (fds[n] < 0)
      error = errno;
    else
      n++;
  }
  while (n > 0)
    close(fds[--n]);
  return error;
}

/* 0, or an errno. Opens 0, 1 and 2 where these are closed, so that no store's
 * descriptor is one of them: the program would print into a connection, and
 * libuv aborts when it closes one. The program's own reads (0) and writes (1,
 * 2) get EBADF as before. */
static int fill_gaps(void) {
  for (int fd = 0; fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) >= 0)
      continue;
    /* Child processes inherit it. */
    int got = open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (got < 0)
      return errno;
    if (got > STDERR_FILENO)
      close(got);
  }
  return 0;
}

/* 0, or an errno. */
static int open_uv(struct dlk_loop *l) {
  int error = fill_gaps();
  if (error == 0)
    error = find_descriptors();
  if (error == 0)
    error = -uv_loop_init(&l->uv);
  if (error != 0)
    return error;
  l->uv.data = l;
  error = -uv_async_init(&l->uv, &l->kick, on_kick);
  if (error != 0)
    uv_loop_close(&l->uv);
  else
    uv_timer_init(&l->uv, &l->tick);
  return error;
}

static void close_handles(struct dlk_loop *l) {
  uv_close((uv_handle_t *)&l->kick, NULL);
  uv_close((uv_handle_t *)&l->tick, NULL);
}

bool dlk_loop_open(struct dlk_loop *l, const char *shown,
                   struct dlk_error *err) {
  int error = open_uv(l);
  if (error != 0) {
    char why[DLK_REASON_MAX];
    dlk_error_set(err, DLK_UNAVAILABLE, "no event loop for '%s': %s", shown,
                  dlk_reason(why, error));
    return false;
  }
  if (dlk_thread_start(l, shown, err))
    return true;
  close_handles(l);
  uv_run(&l->uv, UV_RUN_DEFAULT);
  uv_loop_close(&l->uv);
  return false;
}

void dlk_loop_make_resident(struct dlk_loop *l) {
  if (!atomic_exchange(&l->resident, true))
    dlk_owner_look(l);
}

void dlk_loop_set_ended(struct dlk_loop *l) {
  pthread_mutex_lock(&l->lock);
  atomic_store(&l->ended, true);
  pthread_mutex_unlock(&l->lock);
}

/* By the owner. */
static void end(struct dlk_loop *l) {
  dlk_inbox_run(&l->inbox);
  close_handles(l);
  for (int i = 0; i < 100 && uv_loop_alive(&l->uv); i++)
    if (uv_run(&l->uv, UV_RUN_NOWAIT) == 0)
      break;
  uv_loop_close(&l->uv);
  dlk_owner_end(l);
}

void dlk_loop_end(struct dlk_loop *l) {
  dlk_loop_set_ended(l);
  dlk_thread_join(l);
  dlk_owner_await(l);
  end(l);
}

void dlk_loop_end_by_thread(struct dlk_loop *l) {
  dlk_loop_set_ended(l);
  dlk_thread_detach(l);
  end(l);
}
